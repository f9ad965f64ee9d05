"""Pipelines: ordinary Structured Streaming files, one each, for ``penstock pipeline run`` and
spark-submit alike."""
