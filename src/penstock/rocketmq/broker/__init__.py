"""The RocketMQ broker: its rules in small pieces without I/O, and the daemon around them."""
