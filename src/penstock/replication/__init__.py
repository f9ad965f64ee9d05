"""A second copy of a node: the primary, its followers, and how one of them becomes primary."""
