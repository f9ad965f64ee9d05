"""Dead letters as nsqd, ``penstock dlq`` and nsqadmin see them, and how they are sent again."""
