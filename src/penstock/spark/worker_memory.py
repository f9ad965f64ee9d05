"""The garbage collections of Spark's Python workers, without what they have loaded for good.

A worker collects all its garbage after each task, and so does each process that Spark asks about a
sink at each micro-batch: five times a batch of two tasks. Each time Python goes through everything
that PySpark, numpy and pyarrow have imported, 20 ms of processor time, most of a small batch.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final

_WORKERS: Final = "pyspark.daemon"
"""The program that workers of Spark run: nobody else's process is touched."""


@cache
def settle() -> None:
    """Leave all that is there now out of the collections to come; once a process.

    Called where the first task of a worker has done its work, so that all is imported.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if getattr(spec, "name", "") == _WORKERS:
        gc.freeze()
