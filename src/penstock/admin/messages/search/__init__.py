"""Search in a topic's logs: conditions on bodies, and a bounded walk over the logs of all nodes."""
