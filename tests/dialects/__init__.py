"""NSQ and RocketMQ on the same topics."""
