"""The columns that the sink writes: ``body`` or ``value``, ``topic``, ``defer_ms``.

A frame without a body has the others packed into one.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import BinaryType, IntegralType, StringType, StructField, StructType

from penstock.spark.errors import OptionError
from penstock.spark.schema import SCHEMA
from penstock.spark.sink.packing import require_packable

_BODIES = ("body", "value")
_KINDS = {
    "body": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "defer_ms": (IntegralType,),
}
_WANTED = {
    "body": "binary or string",
    "value": "binary or string",
    "topic": "string",
    "defer_ms": "a whole number",
}


class Columns(NamedTuple):
    """Names of columns; None for those that a frame does not have.

    Without ``body``, those that are ``packed`` are one JSON object.
    """

    body: str | None
    topic: str | None
    delay: str | None
    packed: tuple[StructField, ...] = ()

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> Columns:
        """The columns to write of a frame; ``topic`` is the option, which goes first.

        Beside a body, what the source gives is left out, so that messages can be forwarded as they
        are. Raises OptionError for any other column, which would be lost in silence.
        """
        names = schema.fieldNames()
        bodies = [name for name in _BODIES if name in names]
        if len(bodies) > 1:
            raise OptionError("columns body and value are both a message's body: give one of them")
        if topic is None and "topic" not in names:
            raise OptionError('say where to write: the option "topic" or a column topic')
        columns = cls(
            body=bodies[0] if bodies else None,
            topic="topic" if topic is None else None,
            delay="defer_ms" if "defer_ms" in names else None,
        )
        for field in schema:
            if bodies or field.name in (columns.topic, columns.delay):
                _require_known(field)
        return columns if bodies else columns._replace(packed=columns._others(schema))

    def _others(self, schema: StructType) -> tuple[StructField, ...]:
        """The columns that become the body. Raises OptionError."""
        fields = tuple(each for each in schema if each.name not in (self.topic, self.delay))
        if not fields:
            raise OptionError(
                "format nsq writes a column body (or value), or packs others into one"
            )
        for field in fields:
            require_packable(field)
            if field.name.lower() == "body":
                raise OptionError(f"column {field.name}: call it body, in small letters")
        names = [field.name for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OptionError(f"two columns {twice} cannot be in one JSON body: rename one")
        return fields


def is_one_of(field: StructField, columns: StructType) -> bool:
    """True for a column of these by name and type, nullable or not; a watermark is in metadata."""
    return (field.name, field.dataType) in [(each.name, each.dataType) for each in columns]


def _require_known(field: StructField) -> None:
    kinds = _KINDS.get(field.name)
    if kinds is None and not is_one_of(field, SCHEMA):
        raise OptionError(
            f"format nsq writes no column {field.name}; it writes body (or value), topic and "
            "defer_ms: leave it out, or leave body out, and all columns are packed into one as JSON"
        )
    if kinds is not None and not isinstance(field.dataType, kinds):
        raise OptionError(
            f"column {field.name} must be {_WANTED[field.name]}, not "
            f"{field.dataType.simpleString()}"
        )
