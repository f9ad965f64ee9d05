"""Columns of a row as one JSON object, as Spark's ``to_json(struct(*))`` has it.

Where the two differ, nothing is lost and the bytes depend on the row alone: timestamps are in UTC,
whatever the session's time zone is, and keep their microseconds.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from json.encoder import encode_basestring as quoted
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark.errors import OptionError
from penstock.spark.nested_types import changed

Text: TypeAlias = Callable[[Any], str]
"""From a value that is not null to its JSON."""


def require_packable(field: StructField) -> None:
    """Raise OptionError for a column that JSON has no form for."""
    try:
        _text(field.dataType)
    except TypeError as error:
        raise OptionError(
            f"column {field.name} cannot be packed into a JSON body, which has no form for "
            f"{error}: cast it to string, or make a column body"
        ) from None


def packed(batch: pa.RecordBatch, fields: Sequence[StructField]) -> pa.Array:
    """An object for each row, without its nulls. Raises ValueError, which names the column."""
    columns = [_column(batch.column(field.name), field) for field in fields]
    names = [field.name for field in fields]
    return pa.array(
        [_object(names, row).encode() for row in zip(*columns, strict=True)], pa.large_binary()
    )


def _column(column: pa.Array, field: StructField) -> list[str | None]:
    text = _text(field.dataType)
    # Python does not know all of Spark's time zones, such as GMT+08:00.
    in_utc = changed(column.type, _in_utc)
    column = column if column.type == in_utc else column.cast(in_utc)
    try:
        return [None if value is None else text(value) for value in column.to_pylist()]
    except (ValueError, OverflowError) as error:
        # Text that is not UTF-8, years that have no four digits.
        raise ValueError(f"column {field.name} cannot be packed into JSON: {error}") from None


def _in_utc(kind: pa.DataType) -> pa.DataType:
    is_time = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if is_time else kind


def _object(names: Iterable[str], values: Iterable[str | None]) -> str:
    pairs = zip(names, values, strict=True)
    return f"{{{','.join(f'{quoted(name)}:{text}' for name, text in pairs if text is not None)}}}"


def _text(kind: DataType) -> Text:
    """Raise TypeError, which names the type, where there is no form."""
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        element = _or_null(_text(kind.elementType))
        return lambda values: f"[{','.join(map(element, values))}]"
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        value = _or_null(_text(kind.valueType))
        return lambda pairs: f"{{{','.join(f'{quoted(key)}:{value(v)}' for key, v in pairs)}}}"
    for known, text in _TEXTS.items():
        if isinstance(kind, known):
            return text
    raise TypeError(kind.simpleString())


def _struct(kind: StructType) -> Text:
    names = kind.fieldNames()
    texts = [_text(field.dataType) for field in kind]

    def text(value: dict[str, Any]) -> str:
        given = (value[name] for name in names)
        return _object(
            names,
            (None if each is None else form(each) for form, each in zip(texts, given, strict=True)),
        )

    return text


def _or_null(text: Text) -> Text:
    return lambda value: "null" if value is None else text(value)


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _float(value: float) -> str:
    """The shortest digits that mean the same float of 32 bits."""
    return _double(float(str(np.float32(value))))


def _decimal(value: Decimal) -> str:
    return f"{value:f}"


def _binary(value: bytes) -> str:
    return f'"{b64encode(value).decode()}"'


def _date(value: date) -> str:
    return f'"{value.isoformat()}"'


def _timestamp(value: datetime) -> str:
    return f'"{_digits(value.astimezone(UTC).replace(tzinfo=None))}Z"'


def _local_timestamp(value: datetime) -> str:
    return f'"{_digits(value)}"'


def _digits(value: datetime) -> str:
    return value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_TEXTS: Final[dict[type[DataType], Text]] = {
    StringType: quoted, BooleanType: _boolean, IntegralType: str, DoubleType: _double,
    FloatType: _float, DecimalType: _decimal, BinaryType: _binary, DateType: _date,
    TimestampType: _timestamp, TimestampNTZType: _local_timestamp, NullType: str,
}  # fmt: skip
