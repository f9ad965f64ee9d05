"""The columns that a query needs of its source: those it leaves out are not built, nor sent.

Spark does not tell a Python source which columns it prunes, so the optimiser is asked in advance,
over a batch that is never run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def columns(
    spark: SparkSession, schema: StructType, query: Callable[[DataFrame], DataFrame]
) -> list[str]:
    """The names of the columns of ``schema`` that what ``query`` makes of a frame depends on."""
    # The optimiser would see through an empty table, but knows nothing of what an RDD holds.
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), schema)
    plan: Any = query(empty)._jdf.queryExecution().optimizedPlan()
    leaves: dict[int, str] = {}
    used: set[int] = set()
    for node in _nodes(plan):
        if node.children().isEmpty():
            leaves |= dict(_attributes(node.output()))
        used |= {number for number, _ in _attributes(node.references().toSeq())}
    # What the last node gives is asked for, too: of `select * from input` there is no other node.
    used |= {number for number, _ in _attributes(plan.output())}
    names = {name for number, name in leaves.items() if number in used}
    return [name for name in schema.fieldNames() if name in names]


def sources(frame: DataFrame) -> int:
    """The number of sources that Spark makes for a stream: for a table joined with itself two, for
    one united with itself one.
    """
    plan: Any = frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves().distinct()
    return sum(leaves.apply(index).isStreaming() for index in range(leaves.size()))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _attributes(attributes: Any) -> Iterator[tuple[int, str]]:
    for index in range(attributes.size()):
        attribute = attributes.apply(index)
        yield attribute.exprId().id(), attribute.name()
