"""The receiving side of the client, without I/O: RDY, backoff, replies."""
