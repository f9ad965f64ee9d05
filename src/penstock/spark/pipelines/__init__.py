"""Pipelines: source, Spark SQL and sink in one TOML file, for ``penstock pipeline`` and Python."""

from penstock.spark.pipelines.document import PipelineFileError
from penstock.spark.pipelines.pipeline import Pipeline

__all__ = ["Pipeline", "PipelineFileError"]
