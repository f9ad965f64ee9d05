"""What a cluster of nsqds and nsqlookupds is, and how all of it is asked at once."""
