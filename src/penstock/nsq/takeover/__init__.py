"""Taking over the data path of Go's nsqd: its queue files become part of our log, once."""
