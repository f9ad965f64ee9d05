"""Spark's pipelines as nodes know them: their status, and their last hour."""
