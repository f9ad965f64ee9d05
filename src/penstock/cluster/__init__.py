"""nsqds and nsqlookupds as they are seen from outside: asked over HTTP, and understood."""
