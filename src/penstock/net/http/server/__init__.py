"""The HTTP server of the daemons."""
