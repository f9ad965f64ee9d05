"""Penstock: one durable, replayable log under NSQ's protocol, read by Spark."""

__version__ = "0.1.0"
