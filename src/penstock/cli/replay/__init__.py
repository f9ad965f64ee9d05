"""``penstock replay``: print or publish again what a topic's log holds."""
