"""The demo's proof: the archive is read back and compared with what was published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENT = "seq LONG, carrier STRING, dep_delay DOUBLE"


def examine(spark: SparkSession, archive: Path) -> list[dict[str, Any]]:
    """One row a carrier: events, different ones among them, their range, the mean delay (minutes).

    A doubled event doubles within its carrier, so the counts a carrier add up to the whole proof.
    """
    from pyspark.sql import functions as F

    events = (
        spark.read.parquet(str(archive))
        .select(F.from_json(F.col("body").cast("string"), EVENT).alias("event"))
        .select("event.*")
    )
    rows = events.groupBy("carrier").agg(
        F.count("*").alias("events"),
        F.count_distinct("seq").alias("distinct"),
        F.min("seq").alias("first"),
        F.max("seq").alias("last"),
        F.avg("dep_delay").alias("delay"),
    )
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: -(row["delay"] or 0.0))


def verdict(carriers: list[dict[str, Any]], published: int) -> tuple[bool, str]:
    """True if each published event is there exactly once, and the sentence that says so."""
    rows = sum(row["events"] for row in carriers)
    distinct = sum(row["distinct"] for row in carriers)
    whole = (
        rows > 0
        and min(row["first"] for row in carriers) == 0
        and max(row["last"] for row in carriers) == published - 1
    )
    lost, twice = published - distinct, rows - distinct
    kept = whole and lost == 0 and twice == 0
    sign = "=" if rows == published else "≠"
    return kept, (
        f"{rows:,} rows in Parquet {sign} {published:,} events published, "
        f"{lost or 'none'} lost, {twice or 'none'} twice"
    )
