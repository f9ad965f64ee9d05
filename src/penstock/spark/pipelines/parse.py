"""From messages to columns: JSON bodies, the rows that do not parse, watermark and copies."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from penstock.spark.errors import SourceError
from penstock.spark.pipelines.spec import Parse, column_error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

BAD_ROWS = "bad"
"""Metric of rows that did not parse, in the observation ``INPUT``."""
INPUT = "input"
"""Observation of the rows that came."""

_PARSED = "__parsed"
_CORRUPT = "__corrupt"
_HIDDEN = "__hidden"
_TEXT_MAX = 100


def columns(frame: DataFrame, parse: Parse) -> DataFrame:
    """The rows that parse, as columns; without ``json`` the frame itself.

    Fields of the body come before the columns of the message, and hide those of the same name.
    """
    if parse.json is None:
        return _marked(frame, parse)
    from pyspark.sql import functions as F

    rows = _parsed(frame, parse.json)
    rows = rows.observe(
        INPUT, F.count(F.lit(1)).alias("rows"), F.count_if(_is_bad(parse.json)).alias(BAD_ROWS)
    ).where(~_is_bad(parse.json))
    fields = fields_of(parse.json).fieldNames()
    hidden = {name.lower() for name in fields}
    others = [name for name in frame.columns if name.lower() not in hidden]
    return _marked(rows.select(*(F.col(f"{_PARSED}.`{name}`") for name in fields), *others), parse)


def messages(frame: DataFrame, parse: Parse) -> DataFrame:
    """The messages that parse, without copies, as they are."""
    from pyspark.sql import functions as F

    fields = fields_of(parse.json).fieldNames() if parse.json else []
    lower = {name.lower() for name in fields}
    hidden = [name for name in frame.columns if name.lower() in lower]
    if hidden:
        frame = frame.withColumn(_HIDDEN, F.struct(*hidden))
    rows = columns(frame, parse)
    whole = [name for name in frame.columns if name != _HIDDEN]
    return rows.select(*(F.col(f"{_HIDDEN}.{name}" if name in hidden else name) for name in whole))


def bad_rows(frame: DataFrame, json: str) -> DataFrame:
    """The rows that do not parse: the message's columns, and ``reason``."""
    rows = _parsed(frame, json).where(_is_bad(json))
    return rows.select(*frame.columns, _reason(json, text_column(frame)).alias("reason"))


def letters(bad: DataFrame) -> DataFrame:
    """Bodies for the topic of bad rows: JSON with the reason, the message's place and its body.

    A body that is not UTF-8 text is ``body_base64``.
    """
    from pyspark.sql import functions as F

    known = [name for name in ("topic", "node", "queue", "offset", "id") if name in bad.columns]
    body = F.col(text_column(bad)).cast("binary")
    is_text = F.is_valid_utf8(body.cast("string"))
    letter = F.struct(
        "reason",
        *known,
        F.when(is_text, body.cast("string")).alias("body"),
        F.when(~is_text, F.base64(body)).alias("body_base64"),
    )
    return bad.select(F.to_json(letter).cast("binary").alias("body"))


def fields_of(json: str) -> StructType:
    """The fields of a DDL; needs a running Spark. Raises SourceError."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(json)
    except PySparkException as error:
        near = next((line for line in str(error).splitlines() if line.strip()), "")
        raise SourceError(f"[parse] json: Spark cannot read {json!r}: {near}") from None
    assert isinstance(schema, StructType)  # without fields it is a ParseException
    return schema


def text_column(frame: DataFrame) -> str:
    """The column of the message's body: ``body``, or ``value`` as of Kafka and of text files."""
    for name in ("body", "value"):
        if name in frame.columns:
            return name
    raise SourceError(
        f"[parse] json needs a column body or value; the source has {', '.join(frame.columns)}"
    )


def _parsed(frame: DataFrame, json: str) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    schema = StructType(fields_of(json).fields).add(_CORRUPT, StringType())
    text = F.col(text_column(frame)).cast("string")
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    return frame.withColumn(_PARSED, F.from_json(text, schema, options))


def _is_bad(json: str) -> Column:
    """No JSON object, a field of another type, or one that is NOT NULL in the DDL and not there."""
    from pyspark.sql import functions as F

    parsed = F.col(_PARSED)
    signs = [parsed.isNull(), parsed[_CORRUPT].isNotNull()]
    signs += [parsed[field.name].isNull() for field in fields_of(json) if not field.nullable]
    return reduce(lambda one, other: one | other, signs)


def _reason(json: str, body: str) -> Column:
    """The reason that a row is bad, for the person who will read it."""
    from pyspark.sql import functions as F

    parsed = F.col(_PARSED)
    text = F.col(body).cast("string")
    document = F.try_parse_json(text)
    is_object = F.schema_of_variant(document).startswith("OBJECT")
    reasons = [
        F.when(document.isNull(), F.lit("the body is not JSON")),
        F.when(~is_object, F.lit("the body is not a JSON object")),
    ]
    for field in fields_of(json):
        given = F.get_json_object(text, f"$['{field.name}']")
        kind = field.dataType.simpleString()
        wrong = F.concat(
            F.lit(f"field {field.name} is not of type {kind}: "), F.substring(given, 1, _TEXT_MAX)
        )
        reasons.append(F.when(given.isNotNull() & parsed[field.name].isNull(), wrong))
        if not field.nullable:
            missing = F.lit(f"field {field.name} is missing")
            reasons.append(F.when(parsed[field.name].isNull(), missing))
    return F.coalesce(*reasons, F.lit("the body does not parse"))


def _marked(frame: DataFrame, parse: Parse) -> DataFrame:
    """The frame with its watermark, without copies. Raises SourceError for an unknown column."""
    given = [*parse.unique, *(parse.watermark or ())[:1]]
    for column in given:
        if column.lower() not in (name.lower() for name in frame.columns):
            raise SourceError(f"[parse] {column_error(column, frame.columns)}")
    if parse.watermark is not None:
        frame = frame.withWatermark(*parse.watermark)
    if not parse.unique:
        return frame
    unique = list(parse.unique)
    if frame.isStreaming:
        return frame.dropDuplicatesWithinWatermark(unique)
    # Spark has it for streams only; of one batch, as tests are, both drop the same.
    return frame.dropDuplicates(unique)
