"""A second copy of a node: what its primary tells a follower, and what the follower keeps of it."""
