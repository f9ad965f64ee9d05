"""Producers and consumers: their connections, groups, heartbeats and locks on queues."""
