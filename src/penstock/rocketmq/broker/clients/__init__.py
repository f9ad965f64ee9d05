"""Requests of producers and consumers about groups: heartbeats, members, locks on queues."""
