"""The sink to nodes: its options and columns, rows that become messages, requests and refusals."""

from __future__ import annotations

import pickle
import struct
import threading
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.log_api.errors import LogError, NoLog
from penstock.nsq.protocol import encode
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.formats.nsq import NsqDataSource
from penstock.spark.schema import SCHEMA
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.idle import KEPT_MAX, Idle
from penstock.spark.sink.in_flight import InFlight
from penstock.spark.sink.packing import packed, require_packable
from penstock.spark.sink.pieces import Piece, cut, edges, groups, joined, nbytes
from penstock.spark.sink.refusals import refusal, too_big
from penstock.spark.sink.request_bodies import batch_of, publish_body, staged_body
from penstock.spark.sink.request_buffers import RequestBuffers
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.sink_settings import SinkSettings
from tests.unit.spark.sink.making import batch, bodies_of, piece, reader, schema

NODE = {"nsqd_http_address": "h:1"}
EXACT = {**NODE, "exactlyOnce": "true"}


def test_options_as_spark_hands_them_over() -> None:
    given = {"checkpointlocation": "/c", "queryname": "q", "path": "t", "EXACTLYONCE": "True"}
    settings = SinkSettings.parse(NODE | given | {"writerid": "w", "writerbatch": "0"})
    assert (settings.topic, settings.exactly_once) == ("t", True)
    assert (settings.writer, settings.writer_batch) == ("w", 0)
    assert SinkSettings.parse({**NODE, "path": "p", "Topic": "t"}).topic == "t"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**NODE, "topic": "a,b"}, "topic name 'a,b' is invalid"),
        ({**EXACT, "writerId": "w" * 129}, "writerId has more than 128 characters"),
        ({**EXACT, "writerBatch": "-1"}, "writerBatch must be a whole number from 0 to 922337203"),
        ({**EXACT, "writerBatch": "9" * 19}, f"to {2**63 - 1}, not '{'9' * 19}'"),
        ({**EXACT, "writerBatch": "9" * 5000}, f"to {2**63 - 1}, not '9999"),
        ({**NODE, "startingOffsets": "latest"}, "knows no option startingoffsets"),
        ({}, "say where the nodes are"),
    ],
)
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        SinkSettings.parse(options)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("options", "streaming", "said"),
    [
        (EXACT, True, ""),
        (NODE, False, ""),
        ({**EXACT, "writerId": "w", "writerBatch": "0"}, False, ""),
        ({**EXACT, "writerId": "w"}, True, "for batch writes: a stream has its query id"),
        ({**EXACT, "writerBatch": "1"}, False, "needs writerId and writerBatch"),
        ({**EXACT, "writerId": "w"}, False, "needs writerId and writerBatch"),
        (EXACT, False, "needs writerId and writerBatch"),
        ({**NODE, "writerBatch": "0"}, False, "of no use without exactlyOnce=true"),
    ],
)
def test_the_name_of_a_writer(options: dict[str, str], streaming: bool, said: str) -> None:
    settings = SinkSettings.parse(options)
    with pytest.raises(OptionError, match=said) if said else nullcontext():
        settings.require_writer(streaming=streaming)


def of(ddl: str, topic: str | None = None) -> Columns:
    return Columns.of(schema(ddl), topic)


def test_what_is_written() -> None:
    assert of("body binary", "t") == Columns("body", None, None)
    delayed = "value string, defer_ms smallint, topic string"
    assert of(delayed) == Columns("value", "topic", "defer_ms")
    # The option goes first, as with Kafka's sink.
    assert of("topic string, body string", "t").topic is None
    # Messages are forwarded as the source gives them, with a watermark too.
    assert Columns.of(SCHEMA, None) == Columns("body", "topic", None)
    marked = StructField("timestamp", TimestampType(), False, {"spark.watermarkDelayMs": 1000})
    assert Columns.of(StructType([SCHEMA["body"], marked]), "t") == Columns("body", None, None)


@pytest.mark.parametrize(
    ("ddl", "topic", "packed"),
    [
        ("text string, n bigint", "t", ["text", "n"]),
        # What chooses the topic or delays is no part of the body; a topic that does not choose is.
        ("topic string, n bigint, defer_ms bigint", None, ["n"]),
        ("topic string, n bigint", "t", ["topic", "n"]),
        # Nothing is left out of a frame that is not forwarded.
        ("id string, offset bigint", "t", ["id", "offset"]),
    ],
)
def test_without_a_body_the_others_are_packed_into_one(
    ddl: str, topic: str | None, packed: list[str]
) -> None:
    columns = of(ddl, topic)
    assert columns.body is None
    assert [field.name for field in columns.packed] == packed


@pytest.mark.parametrize(
    ("ddl", "topic", "said"),
    [
        ("body binary", None, 'say where to write: the option "topic" or a column topic'),
        ("body binary, text string", "t", "format nsq writes no column text; it writes body (or"),
        ("topic string", None, "format nsq writes a column body (or value), or packs others"),
        ("n bigint", None, 'say where to write: the option "topic" or a column topic'),
        ("Body binary", "t", "column Body: call it body, in small letters"),
        ("n bigint, n string", "t", "two columns n cannot be in one JSON body: rename one"),
        ("n bigint, topic bigint", None, "column topic must be string, not bigint"),
        ("v variant", "t", "column v cannot be packed into a JSON body, which has no form for v"),
        ("body binary, value binary", "t", "give one of them"),
        ("body bigint", "t", "column body must be binary or string, not bigint"),
        ("body binary, defer_ms double", "t", "column defer_ms must be a whole number, not double"),
        ("body binary, id bigint", "t", "format nsq writes no column id"),
    ],
)
def test_columns_that_are_refused(ddl: str, topic: str | None, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        of(ddl, topic)
    assert said in str(refused.value)


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


def packing(ddl: str) -> RowReader:
    return RowReader(Columns.of(schema(ddl), "t"), "t", 3)


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


NOON = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
WINDOW = StructType([StructField("start", TimestampType()), StructField("n", LongType())])


def json_of(kind: DataType, arrow: pa.DataType, *values: Any) -> list[str]:
    field = StructField("v", kind)
    require_packable(field)
    batch = pa.record_batch({"v": pa.array(values, arrow)})
    return [body.decode() for body in packed(batch, [field]).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "text"),
    [
        (StringType(), pa.string(), 'a "b"\n\u00fc', '"a \\"b\\"\\nü"'),
        (BooleanType(), pa.bool_(), True, "true"),
        (BooleanType(), pa.bool_(), False, "false"),
        (LongType(), pa.int64(), -(1 << 63), "-9223372036854775808"),
        (DoubleType(), pa.float64(), 0.1, "0.1"),
        (DoubleType(), pa.float64(), float("nan"), '"NaN"'),
        (DoubleType(), pa.float64(), float("inf"), '"Infinity"'),
        (DoubleType(), pa.float64(), float("-inf"), '"-Infinity"'),
        (FloatType(), pa.float32(), 0.1, "0.1"),
        (DecimalType(38, 10), pa.decimal128(38, 10), Decimal("1e-10"), "0.0000000001"),
        (BinaryType(), pa.binary(), b"\xff\0", '"/wA="'),
        (DateType(), pa.date32(), date(2026, 1, 31), '"2026-01-31"'),
        (TimestampType(), pa.timestamp("us", "UTC"), NOON + timedelta(microseconds=1),
         '"2026-01-31T10:00:00.000001Z"'),
        (TimestampNTZType(), pa.timestamp("us"), datetime(2026, 1, 31),
         '"2026-01-31T00:00:00.000"'),
        (ArrayType(LongType()), pa.list_(pa.int64()), [1, None], "[1,null]"),
        (MapType(StringType(), DoubleType()), pa.map_(pa.string(), pa.float64()),
         [("a", 1.0), ("b", None)], '{"a":1.0,"b":null}'),
        (WINDOW, pa.struct({"start": pa.timestamp("us", "UTC"), "n": pa.int64()}),
         {"start": datetime(2026, 1, 31, tzinfo=UTC), "n": None},
         '{"start":"2026-01-31T00:00:00.000Z"}'),
        (WINDOW, pa.struct({"start": pa.timestamp("us", "UTC"), "n": pa.int64()}), {}, "{}"),
    ],
)  # fmt: skip
def test_values(kind: DataType, arrow: pa.DataType, value: Any, text: str) -> None:
    assert json_of(kind, arrow, value, None) == [f'{{"v":{text}}}', "{}"]


@pytest.mark.parametrize("zone", ["UTC", "GMT+08:00", "PST", "UTC+3", "Europe/Berlin", "+02:00"])
def test_times_of_all_zones_of_spark(zone: str) -> None:
    start = pa.timestamp("us", zone)
    value = [("k", [{"start": NOON, "n": 1}, None])]
    arrow = pa.map_(pa.string(), pa.list_(pa.struct({"start": start, "n": pa.int64()})))
    kind = MapType(StringType(), ArrayType(WINDOW))
    text = '{"k":[{"start":"2026-01-31T10:00:00.000Z","n":1},null]}'
    assert json_of(kind, arrow, value, None) == [f'{{"v":{text}}}', "{}"]
    assert json_of(TimestampType(), start, NOON) == ['{"v":"2026-01-31T10:00:00.000Z"}']


def test_a_column_of_nulls_and_years_of_five_digits() -> None:
    assert json_of(NullType(), pa.null(), None) == ["{}"]
    far = pa.scalar(1 << 60, pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"v": pa.array([far.value], pa.timestamp("us", "UTC"))})
    with pytest.raises(ValueError, match="column v cannot be packed into JSON"):
        packed(batch, [StructField("v", TimestampType())])


@pytest.mark.parametrize(
    "kind", [MapType(LongType(), LongType()), ArrayType(MapType(LongType(), LongType()))]
)
def test_what_has_no_form(kind: DataType) -> None:
    with pytest.raises(OptionError, match=r"column v cannot be packed .* no form for map<bigint"):
        require_packable(StructField("v", kind))


def test_a_piece_is_cut_by_bytes_and_has_one_message_at_least() -> None:
    whole = piece([b"a" * 10, b"b" * 2, b"c" * 2, b"d" * 50, b"e" * 2])
    parts = list(cut(whole, 30))
    assert [bodies_of(part) for part in parts] == [
        [b"a" * 10, b"b" * 2], [b"c" * 2], [b"d" * 50], [b"e" * 2],
    ]  # fmt: skip
    assert [part.rows.tolist() for part in parts] == [[0, 1], [2], [3], [4]]
    # A slice of a slice is cut by where its own bodies begin.
    assert [part.count for part in cut(whole.slice(1, 5), 20)] == [2, 1, 1]
    assert nbytes(whole.slice(1, 3)) == 4 + 2 * 8


def test_pieces_are_joined_with_their_places() -> None:
    both = joined([piece([b"a"], [7]), piece([b"b", b"c"], [0, 9], first=40)])
    assert bodies_of(both) == [b"a", b"b", b"c"]
    assert both.rows.tolist() == [0, 40, 41]
    assert both.delays.tolist() == [7, 0, 9]
    assert both.where(2) == "rows 0 to 41 of partition 2"
    first, second = both.halves()
    assert first.where(2) == "row 0 of partition 2"
    assert second.rows.tolist() == [40, 41]


def test_groups_keep_the_order() -> None:
    found = {key: indices.tolist() for key, indices in groups(np.array([5, 1, 5, 1, 1]))}
    assert found == {1: [1, 3, 4], 5: [0, 2]}


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_borders_of_every_kind(kind: pa.DataType) -> None:
    array = pa.array(["aa", "b", "cccc"], kind)
    assert edges(array).tolist() == [0, 2, 3, 7]
    assert edges(array.slice(1)).tolist() == [2, 3, 7]
    assert edges(array.slice(3)).tolist() == [0]


def shown(sent: list[tuple[str, Piece]]) -> list[tuple[str, list[bytes]]]:
    return [(key, bodies_of(piece)) for key, piece in sent]


def test_small_pieces_wait_for_each_other() -> None:
    piles: RequestBuffers[str] = RequestBuffers(4000)
    assert list(piles.add("a", piece([b"1", b"2"]))) == []
    assert list(piles.add("b", piece([b"3"]))) == []
    assert list(piles.add("a", piece([b"4"]))) == []
    assert shown(list(piles.rest())) == [("a", [b"1", b"2", b"4"]), ("b", [b"3"])]
    assert list(piles.rest()) == []


def test_a_full_pile_goes_but_for_its_end() -> None:
    piles: RequestBuffers[str] = RequestBuffers(4000)
    bodies = [b"%03d" % number * 300 for number in range(10)]
    assert shown(list(piles.add("a", piece(bodies)))) == [("a", bodies[:4]), ("a", bodies[4:8])]
    assert shown(list(piles.rest())) == [("a", bodies[8:])]


def test_what_is_held_is_bounded() -> None:
    piles: RequestBuffers[str] = RequestBuffers(3000)
    sent = []
    for number in range(200):
        sent += list(piles.add(f"k{number}", piece([b"x"])))
    # 16 requests of 3,000 bytes, and each small piece counts for a kilobyte.
    assert len(sent) == 200 - 16 * 3000 // 1033
    assert len({key for key, _ in [*sent, *piles.rest()]}) == 200


BODIES = [b"one", b"\x00" * 300, b"", b"three"]


def test_a_published_body_is_that_of_mpub() -> None:
    whole = piece(BODIES)
    assert publish_body(whole) == encode.multi_body(BODIES)
    assert publish_body(whole.slice(1, 3)) == encode.multi_body(BODIES[1:3])
    assert publish_body(whole.slice(3, 4)) == encode.multi_body(BODIES[3:])


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_staged_body_has_a_delay_each(kind: pa.DataType) -> None:
    whole = piece(BODIES, [0, 1, 2, (1 << 32) - 1])
    whole = Piece(whole.bodies.cast(kind), whole.rows, whole.delays).slice(1, 4)
    wanted = struct.pack(">I", 3)
    for delay, body in zip([1, 2, (1 << 32) - 1], BODIES[1:], strict=True):
        wanted += struct.pack(">II", len(body), delay) + body
    assert staged_body(whole) == wanted


TEXTED = [b"one", b"\x00" * 300, b"three"]
TEXTS = ["KEYS\x01k\x02", "", "a\x01" + "ü" * 9000 + "\x02"]


def test_a_batch_is_what_a_producer_of_rocketmq_sends() -> None:
    whole = replace(piece(TEXTED), properties=pa.array([text.encode() for text in TEXTS]))
    wanted = [BatchedMessage(*each) for each in zip(TEXTED, TEXTS, strict=True)]
    assert batch_of(whole) == batch_body.encode(wanted)
    assert batch_of(whole.slice(1, 3)) == batch_body.encode(wanted[1:])
    assert batch_of(whole.slice(2, 3)) == batch_body.encode(wanted[2:])


def test_no_more_than_the_limit_at_once() -> None:
    may_end = threading.Event()
    running = threading.Semaphore(0)

    def call() -> int:
        running.release()
        may_end.wait(30)
        return 1

    with InFlight(2) as calls:
        calls.submit(call)
        calls.submit(call)
        assert running.acquire(timeout=30)
        assert running.acquire(timeout=30)
        # The third waits for one of the others, and so does not begin before they end.
        threading.Timer(0.05, may_end.set).start()
        calls.submit(call)
        assert may_end.is_set()
        calls.finish()
    assert calls.done == 3


def test_a_failure_is_raised_by_what_comes_after_it() -> None:
    def fail() -> int:
        raise ValueError("no")

    with InFlight(1) as calls:
        calls.submit(fail)
        with pytest.raises(ValueError, match="no"):
            calls.submit(lambda: 1)
    with InFlight(3) as calls:
        calls.submit(lambda: 4)
        calls.submit(fail)
        with pytest.raises(ValueError, match="no"):
            calls.finish()
    assert calls.done == 4


class Connection:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_connections_are_kept_not_shared_and_no_more_wait_than_the_limit() -> None:
    opened: list[Connection] = []

    def connect(address: str) -> Connection:
        opened.append(Connection(address))
        return opened[-1]

    with Idle(connect) as idle:
        with idle.to("a:1") as one, idle.to("a:1") as two, idle.to("b:1") as other:
            assert one is not two
            assert other.address == "b:1"
        with idle.to("a:1") as again:
            assert again in (one, two)
        for number in range(KEPT_MAX + 1):
            with idle.to(f"{number}:1"), idle.to("again:1"):
                pass
        assert [each.address for each in opened if each.is_closed] == [
            "a:1", "a:1", "b:1", "0:1", "1:1",
        ]  # fmt: skip
        assert len([each for each in opened if each.address == "again:1"]) == 1
    assert all(each.is_closed for each in opened)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LogError("n:1", 413, "BAD_MESSAGE"),
         "rows 4 to 5 of partition 0: 700 bytes are more than node n:1 takes (BAD_MESSAGE): raise "
         "its --max-msg-size, or make the message smaller"),
        (LogError("n:1", 400, "INVALID_DEFER"),
         "row 5 of partition 0: defer_ms 9 is more than node n:1 takes: raise its "
         "--max-req-timeout, or delay for less"),
        (LogError("n:1", 400, "TOPIC_IS_EPHEMERAL"),
         "rows 4 to 5 of partition 0: an ephemeral topic remembers no"),
        (LogError("n:1", 403, "FORBIDDEN"),
         "rows 4 to 5 of partition 0: refused by node n:1: 403 FORBIDDEN"),
        (NoLog("n:1", 404, "NOT_FOUND"), "node n:1 is not an nsqd: it takes no messages over HTTP"),
    ],
)  # fmt: skip
def test_why_a_node_does_not_take_rows(error: LogError, said: str) -> None:
    assert str(refusal(error, piece([b"x" * 700, b"y"], [2, 9], first=4), 0)).startswith(said)
    assert too_big(error) == ("BAD_MESSAGE" in said)


ROWS_SCHEMA = schema("body binary")
OPTIONS = {"topic": "t", "nsqd_http_address": "h:1"}


def test_writers_are_pickled_to_the_tasks() -> None:
    source = NsqDataSource(OPTIONS)
    writer: Any
    for writer in (source.writer(ROWS_SCHEMA, False), source.streamWriter(ROWS_SCHEMA, True)):
        again = pickle.loads(pickle.dumps(writer))
        assert again.settings == writer.settings
        assert again.output.columns.body == "body"


def test_a_topic_is_not_overwritten_and_a_stream_has_no_writer_of_batches() -> None:
    with pytest.raises(OptionError) as refused:
        NsqDataSource(OPTIONS).writer(ROWS_SCHEMA, True)
    assert str(refused.value) == 'messages of a topic cannot be overwritten: use mode("append")'
    given = {**OPTIONS, "exactlyOnce": "true", "writerId": "w", "writerBatch": "1"}
    NsqDataSource(given).writer(ROWS_SCHEMA, False)
    with pytest.raises(OptionError, match="for batch writes"):
        NsqDataSource(given).streamWriter(ROWS_SCHEMA, False)


@pytest.mark.parametrize("streaming", [False, True])
def test_exactly_once_needs_a_fixed_list_of_nodes(streaming: bool) -> None:
    given = {"topic": "t", "lookupd_http_address": "h:1", "exactlyOnce": "true"}
    source = NsqDataSource(given if streaming else given | {"writerId": "w", "writerBatch": "1"})
    with pytest.raises(OptionError, match="needs the fixed list of nodes"):
        (source.streamWriter if streaming else source.writer)(ROWS_SCHEMA, False)
