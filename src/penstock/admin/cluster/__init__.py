"""A cluster of nsqds and nsqlookupds, and requests to all of it at once."""
