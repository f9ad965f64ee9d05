"""A node: the topics of one data path and what goes on with them, under every dialect."""
