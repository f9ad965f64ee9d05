"""Changes of RocketMQ's topics and groups, for administrators."""
