"""The NSQ dialect: protocol, daemons, clients."""
