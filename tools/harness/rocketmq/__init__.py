"""RocketMQ's side of the harness: servers of ours and Java's, raw clients, made-up messages."""
