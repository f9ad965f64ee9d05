"""Rows as RocketMQ's messages: checked, with the text of their properties, sorted by topic and key.

The text is put together by Arrow, a column at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.messages import properties
from penstock.spark.errors import OptionError
from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.sink.columns import is_one_of
from penstock.spark.sink.pieces import Longs, Piece, edges, groups
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import TOPIC, invalid_topic
from penstock.spark.sink.rows import Checks

_KINDS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "keys": (StringType,),
    "tags": (StringType,),
    "sharding_key": (StringType,),
    "queue": (IntegralType,),
    "delay_level": (IntegralType,),
    "properties": (MapType,),
}
_NAMED: Final = {
    "keys": properties.KEYS,
    "tags": properties.TAGS,
    "delay_level": properties.DELAY,
}
_LEVEL_MAX: Final = (1 << 31) - 1
_QUEUE_MAX: Final = (1 << 31) - 1
# Of the source's columns, those that say how a message came there; queue and the rest are written.
_PAST: Final = ("born_timestamp", "store_timestamp", "broker", "queue_offset")
# Delivered messages keep them, as Java's brokers leave them: sent again alone, not in a batch, they
# would wait once more, or for the end of a transaction that nobody ends.
_DONE: Final = pa.array([properties.DELAY, *properties.TIMERS, properties.TRANSACTION])
_MARKS: Final = f"[{properties.NAME_END}{properties.VALUE_END}]"
ANY_QUEUE: Final = -1


class Key(NamedTuple):
    """Messages that one batch may hold; ``shard`` chooses their queue, ``level`` delays them.

    A shard is a hash from 0 on, or ANY_QUEUE, or below that the number of a queue.
    """

    topic: str
    shard: int
    level: int

    @property
    def queue(self) -> int | None:
        """The number of the queue, if it is given."""
        return ANY_QUEUE - 1 - self.shard if self.shard < ANY_QUEUE else None


def body_column(schema: StructType, topic: str | None) -> str:
    """The name of the body's column. Raises OptionError for columns that are not written."""
    for field in schema:
        _require_known(field)
    bodies = [name for name in ("body", "value") if name in schema.fieldNames()]
    if len(bodies) != 1:
        raise OptionError("format rocketmq writes one column body (or value), binary or string")
    if topic is None and "topic" not in schema.fieldNames():
        raise OptionError('say where to write: the option "topic" or a column topic')
    return bodies[0]


def _require_known(field: StructField) -> None:
    kinds = _KINDS.get(field.name)
    if kinds is None and not (field.name in _PAST and is_one_of(field, SCHEMA)):
        raise OptionError(
            f"format rocketmq writes no column {field.name}; it writes {', '.join(_KINDS)}: leave "
            "it out, or put it into properties or the body, as in to_json(struct(*)) as body"
        )
    if kinds is not None and not (isinstance(field.dataType, kinds) and _holds_texts(field)):
        raise OptionError(
            f"column {field.name} cannot be {field.dataType.simpleString()} in format rocketmq"
        )


def _holds_texts(field: StructField) -> bool:
    """False for a map of other things than texts to texts."""
    kind = field.dataType
    parts = (kind.keyType, kind.valueType) if isinstance(kind, MapType) else ()
    return all(isinstance(each, StringType | NullType) for each in parts)


class RocketmqRows(Checks):
    """A reader of the rows of one partition, which it counts from 0 on."""

    def __init__(
        self, body: str, topic: str | None, partition: int, shards: int | None = None
    ) -> None:
        """``shards`` is the number of shards into which sharding keys fall, if it is limited."""
        super().__init__(partition)
        self._shards = shards
        self._body = body
        self._topic = topic

    def read(self, batch: pa.RecordBatch) -> Iterator[tuple[Key, Piece]]:
        """The rows by topic and key. Raises SinkError, which names the row."""
        if not batch.num_rows:
            return
        rows = np.arange(self.count, self.count + batch.num_rows)
        bodies = self.bodies(batch.column(self._body), self._body)
        levels = self.numbers(batch, "delay_level", _LEVEL_MAX)
        piece = Piece(bodies, rows, levels, self._properties(batch))
        shards = self._shards_of(batch)
        for topic, indices in self._topics(batch):
            # A shard has 33 bits with its sign and a level 31.
            for both, some in groups((shards[indices] << 31) | levels[indices]):
                yield Key(topic, both >> 31, both & _LEVEL_MAX), piece.take(indices[some])
        self.count += batch.num_rows

    def _shards_of(self, batch: pa.RecordBatch) -> Longs:
        shards = np.full(batch.num_rows, ANY_QUEUE)
        if "sharding_key" in batch.schema.names:
            keys = batch.column("sharding_key").dictionary_encode()
            hashes = np.array([*map(self._hash, keys.dictionary.to_pylist()), ANY_QUEUE])
            shards = hashes[pc.fill_null(keys.indices, -1).to_numpy()]
        if "queue" in batch.schema.names:
            given = batch.column("queue").is_valid().to_numpy(zero_copy_only=False)
            queues = self.numbers(batch, "queue", _QUEUE_MAX)
            shards = np.where(given, ANY_QUEUE - 1 - queues, shards)
        return shards

    def _hash(self, key: str) -> int:
        """A hash as Java's SelectMessageQueueByHash has it, so that its producers and we agree."""
        hashed = abs(java_hash(key))
        return hashed if self._shards is None else hashed % self._shards

    def _topics(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Longs]]:
        if self._topic is not None:
            yield self._topic, np.arange(batch.num_rows)
            return
        yield from self.topics(batch.column("topic"), _refused)

    def _properties(self, batch: pa.RecordBatch) -> pa.Array:
        """The text of each row's properties; of equal names the last counts."""
        parts = []
        if "properties" in batch.schema.names:
            parts.append(self._entries(batch.column("properties")))
        for column, name in _NAMED.items():
            if column in batch.schema.names:
                values = pc.fill_null(batch.column(column).cast(pa.string()), "")
                self._refuse_marks(values, column)
                if column == "delay_level":
                    values = pc.if_else(pc.equal(values, "0"), "", values)
                parts.append(_entry(name, values))
        if not parts:
            return pa.array([""] * batch.num_rows, pa.binary())
        text = pc.binary_join_element_wise(*parts, "").cast(pa.binary())
        too_long = np.diff(edges(text)) > properties.BYTES_MAX
        self.refuse(too_long, f"its properties have more than {properties.BYTES_MAX} bytes")
        return text

    def _entries(self, column: pa.Array) -> pa.Array:
        """The entries of each row's map, one after the other."""
        ends = column.offsets.to_numpy()
        first, count = int(ends[0]), int(ends[-1] - ends[0])
        # Of a slice, too, keys and items are those of the whole.
        keys = column.keys.slice(first, count)
        values = pc.fill_null(column.items.slice(first, count), "")
        row_of = np.repeat(np.arange(len(column)), np.diff(ends))
        marked = np.zeros(len(column), bool)
        for texts in (keys, values):
            marked[row_of[np.asarray(pc.match_substring_regex(texts, _MARKS))]] = True
        self.refuse(marked, _marked("properties"))
        values = pc.if_else(pc.is_in(keys, value_set=_DONE), "", values)
        lists = pa.ListArray.from_arrays(pa.array(ends - first), _entry(keys, values))
        return pc.binary_join(lists, "")

    def _refuse_marks(self, values: pa.Array, column: str) -> None:
        found = pc.fill_null(pc.match_substring_regex(values, _MARKS), False)
        self.refuse(found, _marked(column))


def _refused(name: str) -> str | None:
    return None if TOPIC.fullmatch(name) else invalid_topic(name)


def _marked(column: str) -> str:
    return f"column {column} holds a character 1 or 2, which parts properties from each other"


def _entry(name: pa.Array | str, values: pa.Array) -> pa.Array:
    """The text of a property of each row; empty where its value is."""
    whole = pc.binary_join_element_wise(name, properties.NAME_END, values, properties.VALUE_END, "")
    return pc.if_else(pc.equal(values, ""), "", whole)
