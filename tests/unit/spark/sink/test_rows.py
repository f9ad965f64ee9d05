"""Rows that become messages, and those that cannot."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.spark.errors import SinkError
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.rows import RowReader
from tests.unit.spark.sink.making import batch, bodies_of, reader, schema


def test_rows_are_counted_over_record_batches() -> None:
    rows = reader(delay=True)
    first = list(rows.read(batch(["a", "ü"], defer_ms=[None, 5])))
    second = list(rows.read(batch(["c"], defer_ms=[1])))
    assert list(rows.read(batch([], defer_ms=[]))) == []
    ((topic, piece),) = first
    assert (topic, bodies_of(piece)) == ("t", [b"a", "ü".encode()])
    assert piece.delays.tolist() == [0, 5]
    assert second[0][1].rows.tolist() == [2]
    assert rows.count == 3


def test_rows_of_several_topics() -> None:
    rows = reader(None)
    given = batch([b"1", b"2", b"3", b"4"], topic=["a", "b", "a", "b"])
    found = {topic: (bodies_of(piece), piece.rows.tolist()) for topic, piece in rows.read(given)}
    assert found == {"a": ([b"1", b"3"], [0, 2]), "b": ([b"2", b"4"], [1, 3])}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"body": [b"a", None, None]}, "row 11 of partition 3: column body is null"),
        ({"body": [b"a", b"b", b""]},
         "row 12 of partition 3: column body is empty, which no message can be"),
        ({"topic": ["a", "b!", "b!"]}, "row 11 of partition 3: topic name 'b!' is invalid: a name"),
        ({"topic": ["a", "b", "x" * 300]},
         f"row 12 of partition 3: topic name '{'x' * 100}...' is invalid: "),
        ({"topic": ["a", None, "b"]},
         "row 11 of partition 3: column topic is null, and there is no option topic"),
        ({"defer_ms": [1, -1, 0]}, "row 11 of partition 3: defer_ms is outside 0 to 4294967295"),
        ({"defer_ms": [1, 0, 1 << 32]}, "row 12 of partition 3: defer_ms is outside 0 to 42949672"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_named(columns: dict[str, list[object]], said: str) -> None:
    whole = {"body": [b"a", b"b", b"c"], "topic": ["t"] * 3, "defer_ms": [0] * 3}
    rows = reader(None, delay=True)
    list(rows.read(batch([b"x"] * 10, topic=["t"] * 10, defer_ms=[0] * 10)))
    with pytest.raises(SinkError) as refused:
        list(rows.read(pa.RecordBatch.from_pydict(whole | columns)))
    assert said in str(refused.value)


def packing(ddl: str, partition: int = 3) -> RowReader:
    return RowReader(Columns.of(schema(ddl), "t"), "t", partition)


def test_rows_without_a_body_are_packed() -> None:
    rows = packing("endpoint string, n bigint, defer_ms bigint")
    given = pa.RecordBatch.from_pydict(
        {"endpoint": ["/a", None], "n": [1, None], "defer_ms": [0, 5]}
    )
    ((topic, piece),) = rows.read(given)
    assert (topic, bodies_of(piece)) == ("t", [b'{"endpoint":"/a","n":1}', b"{}"])
    assert piece.delays.tolist() == [0, 5]


def test_text_that_is_no_utf_8_is_no_json() -> None:
    rows = packing("n bigint, text string")
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(SinkError, match="rows 0 to 0 of partition 3: column text cannot be packed"):
        list(rows.read(pa.record_batch({"n": pa.array([1]), "text": text})))


def test_large_strings_stay_large() -> None:
    given = pa.record_batch({"body": pa.array(["a"], pa.large_string())})
    ((_, piece),) = reader().read(given)
    assert piece.bodies.type == pa.large_binary()
