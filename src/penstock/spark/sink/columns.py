"""The columns that the sink writes: ``body`` or ``value``, ``topic``, ``defer_ms``."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import BinaryType, IntegralType, StringType, StructField, StructType

from penstock.spark.errors import OptionError
from penstock.spark.read.schema import SCHEMA

_BODIES = ("body", "value")
_KINDS = {
    "body": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "defer_ms": (IntegralType,),
}
_WANTED = {"body": "binary or string", "value": "binary or string", "topic": "string",
           "defer_ms": "a whole number"}  # fmt: skip


class Columns(NamedTuple):
    """Names of columns; None for those that a frame does not have."""

    body: str
    topic: str | None
    delay: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> Columns:
        """The columns to write of a frame; ``topic`` is the option, which goes first.

        What the source gives beside them is left out, so that messages can be forwarded as they
        are. Raises OptionError for any other column, which would be lost in silence.
        """
        for field in schema:
            _require_known(field)
        names = schema.fieldNames()
        bodies = [name for name in _BODIES if name in names]
        if len(bodies) != 1:
            raise OptionError(
                "format nsq writes the column body (or value), binary or string: "
                + ("give one of the two" if bodies else "name it so, as in to_json(...) as body")
            )
        if topic is None and "topic" not in names:
            raise OptionError('say where to write: the option "topic" or a column topic')
        return cls(
            body=bodies[0],
            topic="topic" if topic is None else None,
            delay="defer_ms" if "defer_ms" in names else None,
        )


def _require_known(field: StructField) -> None:
    kinds = _KINDS.get(field.name)
    if kinds is None and field not in SCHEMA.fields:
        raise OptionError(
            f"format nsq writes no column {field.name}; it writes body (or value), topic and "
            "defer_ms: leave it out, or put it into the body, as in to_json(struct(*)) as body"
        )
    if kinds is not None and not isinstance(field.dataType, kinds):
        raise OptionError(
            f"column {field.name} must be {_WANTED[field.name]}, not "
            f"{field.dataType.simpleString()}"
        )
