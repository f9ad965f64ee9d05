"""Penstock: one durable, replayable log under the protocols of NSQ and RocketMQ, read by Spark."""

__version__ = "0.1.0"
