"""nsqlookupd: the directory where nsqd daemons register topics and consumers find them."""
