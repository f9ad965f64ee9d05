"""The network as the client's core sees it: connections by address, routes, timers."""
