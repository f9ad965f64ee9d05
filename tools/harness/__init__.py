"""Daemons started, waited for and read: what tests and tools share."""
