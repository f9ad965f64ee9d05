"""The log of a node over HTTP, for readers: on the ports of an nsqd, and of a copy of any node."""
