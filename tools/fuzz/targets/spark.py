"""Answers of brokers to Spark's executors."""

from __future__ import annotations

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all, encode
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Place
from penstock.spark.rocketmq.decode import record_batch
from penstock.spark.rocketmq.stored import Stored

from . import Target

_COLUMNS = ("body", "keys", "tags", "properties", "queue_offset")
_HOST, _HOST6 = Host(bytes(4), 1), Host(bytes(16), 2)


def rows(data: bytes) -> None:
    """A pull's answer as columns: refused, or what the protocol reads message by message."""
    try:
        found = record_batch(Stored.parse(data), Place("t", "b", 0), _COLUMNS)
    except SourceError as error:
        assert "\n" not in str(error)
        return
    try:
        messages = list(decode_all(data))
    except BodyError:
        return  # it checks sums, too
    assert found.num_rows == len(messages)
    for row, message in zip(found.to_pylist(), messages, strict=True):
        wanted = properties.parse(message.properties)
        assert dict(row["properties"]) == wanted
        assert (row["keys"], row["tags"]) == (wanted.get("KEYS"), wanted.get("TAGS"))
        assert row["queue_offset"] == message.queue_offset
        assert row["body"] == message.body or message.sys_flag & 1


def _stored(body: bytes, host: Host = _HOST, text: str = "KEYS\x01k\x02TAGS\x01T") -> bytes:
    return encode(StoredMessage("t", body, 1, 2, 3, host, _HOST, 4, 5, text))


TARGETS = {
    "spark_rocketmq_rows": Target(
        rows,
        [_stored(b"one") + _stored(b"three", _HOST6), _stored(b"1") * 3, _stored(b"", text="")],
        [b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\1", b"\2", b"\xff" * 4, b"\0\0\0\x60"],
    ),
}
