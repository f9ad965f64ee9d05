"""The tests in a pipeline's file: rows in, rows wanted out, on a local Spark.

Rows are put through parse and SQL as one batch, so windows and groups are those of all rows at
once: a watermark drops nothing, and no row is late.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.errors import SourceError
from penstock.spark.pipelines import parse
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.spec import Case, column_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

ROWS_MAX: Final = 10_000
"""Rows that a test may make: more is a query without an end, not a test."""
_PUBLISHED = datetime(2026, 1, 1, tzinfo=UTC)
_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that a test wanted and did not get, and those it got and did not want."""

    what: str
    missing: tuple[str, ...]
    unwanted: tuple[str, ...]

    def lines(self) -> list[str]:
        """The difference for people: ``-`` was wanted and is missing, ``+`` came instead."""
        shown = [f"- {row}" for row in self.missing] + [f"+ {row}" for row in self.unwanted]
        return [f"{self.what} (- wanted, + came):", *(f"  {line}" for line in shown)]


def run_case(pipeline: Pipeline, spark: SparkSession, case: Case) -> list[Difference]:
    """The differences of one test; empty when it passed. Raises SourceError for a wrong row."""
    messages = _messages(pipeline, spark, case)
    found = []
    if case.output is not None:
        output = pipeline.transformed(spark, messages)
        found.append(_difference(case, "output", output, case.output))
    if case.bad is not None:
        if pipeline.spec.parse.json is None:
            raise SourceError(f"{case.place}: bad rows need json in [parse]")
        bad = parse.bad_rows(messages, pipeline.spec.parse.json)
        found.append(_difference(case, "bad", bad, case.bad))
    return [each for each in found if each.missing or each.unwanted]


# --- rows in --------------------------------------------------------------------------------------


def _messages(pipeline: Pipeline, spark: SparkSession, case: Case) -> DataFrame:
    schema = pipeline.source_schema(spark)
    names = schema.fieldNames()
    rows = []
    for number, given in enumerate(case.input):
        row = _message(pipeline, names, given)
        for key in row:
            if key not in names:
                raise SourceError(f"{case.place}: input: {column_error(key, names)}")
        whole = {**_usual(pipeline, number), **row}
        rows.append(tuple(_typed(whole.get(field.name), field.dataType) for field in schema))
    try:
        return spark.createDataFrame(rows, schema)
    except Exception as error:  # PySpark's own words name row and type
        raise SourceError(f"{case.place}: input: {error}") from None


def _message(pipeline: Pipeline, names: Sequence[str], given: Any) -> Mapping[str, Any]:
    """The columns that a row of a test sets: a body, or the columns themselves without json."""
    body = "body" if "body" in names else "value"
    if isinstance(given, str):
        return {body: given}
    if pipeline.spec.parse.json is None:
        columns: Mapping[str, Any] = given
        return columns
    return {body: json.dumps(given, default=_json_value)}


def _usual(pipeline: Pipeline, number: int) -> dict[str, Any]:
    """The columns of a message of nsq that a test says nothing about."""
    return {
        "topic": pipeline.spec.source.options.get("topic"),
        "id": f"{number:016x}",
        "timestamp": _PUBLISHED,
        "attempts": 1,
        "node": "test:4151",
        "queue": 0,
        "offset": number,
    }


def _typed(value: Any, kind: DataType) -> Any:
    """A value of TOML as Spark takes it for a column of this type."""
    name = kind.typeName()
    if name == "binary" and isinstance(value, str):
        return value.encode()
    if name == "timestamp" and isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if name in ("double", "float") and isinstance(value, int):
        return float(value)
    return value


def _json_value(value: Any) -> str:
    return str(value.isoformat())


# --- rows out -------------------------------------------------------------------------------------


def _difference(
    case: Case, what: str, frame: DataFrame, wanted: tuple[Mapping[str, Any], ...]
) -> Difference:
    """Rows compared in any order, each by the columns that the wanted row names."""
    named = {name for row in wanted for name in row}
    for name in sorted(named - {*frame.columns}):
        raise SourceError(f"{case.place}: {what}: {column_error(name, frame.columns)}")
    names = [name for name in frame.columns if name in named]
    rows = frame.limit(ROWS_MAX).collect()
    came = [_value(row.asDict(recursive=True), frame.schema) for row in rows]
    if names:
        came = [{name: row[name] for name in names} for row in came]
    missing, unwanted = [], list(came)
    # Rows that say more come first: one that says less would be content with their matches.
    for row in sorted(wanted, key=len, reverse=True):
        match = next((each for each in unwanted if _same(row, each)), None)
        if match is None:
            missing.append(row)
        else:
            unwanted.remove(match)
    return Difference(what, _shown(missing), _shown(unwanted))


def _value(value: Any, kind: Any) -> Any:
    """Bodies as text. PySpark gives times in this machine's zone without saying so, but for those
    of no zone, which are as in UTC here.
    """
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, datetime):
        of_no_zone = kind.typeName() == "timestamp_ntz"
        return value.replace(tzinfo=UTC) if of_no_zone else value.astimezone(UTC)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        is_map = kind.typeName() == "map"
        return {
            key: _value(each, kind.valueType if is_map else kind[key].dataType)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_value(each, kind.elementType) for each in value]
    return value


def _same(wanted: Any, came: Any) -> bool:
    """True if a value is the wanted one; of a table the keys that are named count."""
    if isinstance(wanted, Mapping) and isinstance(came, Mapping):
        return all(key in came and _same(value, came[key]) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(came, list):
        return len(wanted) == len(came) and all(map(_same, wanted, came))
    if isinstance(wanted, datetime) and isinstance(came, datetime):
        wanted = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
        return bool(wanted.astimezone(UTC) == came)
    if isinstance(wanted, float) or isinstance(came, float):
        return _close(wanted, came)
    return bool(type(wanted) is type(came) and wanted == came)


def _close(one: Any, other: Any) -> bool:
    numbers = (int, float)
    if not isinstance(one, numbers) or not isinstance(other, numbers):
        return False
    if math.isnan(one) and math.isnan(other):
        return True
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _shown(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Rows as TOML has them, to be copied into the file if they are right."""
    return tuple(_toml(row) for row in rows)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, datetime):
        shown = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return shown.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, default=str)
