"""Nodes of NSQ, one by one: what is on them, and the machines under them."""
