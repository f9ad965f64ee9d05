"""A node's log over HTTP, for clients: its bounds, reading, writing, staging, its pipelines."""
