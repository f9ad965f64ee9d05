"""RocketMQ's view of the log: records put into it, and reads by queue, key, offset and time."""
