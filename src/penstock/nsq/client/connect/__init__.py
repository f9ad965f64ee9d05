"""One connection of the client, without I/O: handshake, frames, upgrades."""
