"""Channels: the messages that they owe, deliveries, deferrals, attempts."""
