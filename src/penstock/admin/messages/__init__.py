"""Messages, deferred messages and dead letters of the nodes, to look at and to deal with."""
