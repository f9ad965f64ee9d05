"""A node and its second copy over NSQ's ports: followed, following, promoted and fenced."""
