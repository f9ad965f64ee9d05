"""Spark's pipelines as nodes were told of them: how they are, and how they were."""
