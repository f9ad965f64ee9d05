"""``penstock top``: a live view of topics, channels and groups of one or several nodes."""
