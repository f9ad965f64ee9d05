"""Dead letters as nsqd, ``penstock dlq`` and nsqadmin see them: decisions, no I/O."""
