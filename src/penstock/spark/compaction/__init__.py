"""Compaction: the many small files of an archive's folders become few, with the same rows."""

from penstock.spark.compaction.compact import Result, compact
from penstock.spark.compaction.swap import finish, held

__all__ = ["Result", "compact", "finish", "held"]
