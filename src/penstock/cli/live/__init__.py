"""What ``penstock up``, ``demo`` and ``pipeline run`` show and supervise in one terminal."""
