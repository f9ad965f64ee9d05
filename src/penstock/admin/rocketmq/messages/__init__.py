"""Messages of RocketMQ: found, shown, sent again, traced, handed to one consumer."""
