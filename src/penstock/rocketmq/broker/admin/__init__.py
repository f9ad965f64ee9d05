"""Requests by which administrators' tools query and change the broker."""
