"""Indexes of a topic's log: queues and keys."""
