"""A node's log over HTTP, for clients: read by offset, written at once or staged and committed."""
