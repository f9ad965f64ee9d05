"""A program's state as operators' tools ask for it over HTTP: alive, ready, and in figures."""
