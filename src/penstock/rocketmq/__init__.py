"""The RocketMQ dialect: protocol, name server, broker, clients."""
