"""Looking at messages, deferred ones and dead letters, and dealing with them. Ours, not upstream's."""
