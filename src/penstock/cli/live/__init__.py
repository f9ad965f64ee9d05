"""Display and supervision of ``penstock up``, ``demo`` and ``pipeline run`` in one terminal."""
