"""nsqadmin: the HTTP API over a cluster of nsqds, with its history; the pages stand on it."""
