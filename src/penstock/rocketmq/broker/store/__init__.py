"""RocketMQ's view of the log: by queue, key, physical offset and time."""
