"""The receiving side of the client: groups, queues, offsets, handlers, POP."""
