"""Penstock: one durable, replayable log under NSQ's and RocketMQ's protocols, read by Spark."""

__version__ = "0.1.0"
