"""Files of pipelines: what may stand in them, and what is said about the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark.pipelines import cases
from penstock.spark.pipelines.document import Document, PipelineFileError, filled, nearest
from penstock.spark.pipelines.spec import Case, Run, Sink, Source, Spec, read

TEXT = '''\
# a comment
[source]
topic = "t"
"nsqd_http_address" = ["a:1"]

[sql]
query = """
select n
  from input  -- [source]
topic = 7
"""

[[tests]]
name = "one"
[[tests]]
name = "two"
[run]
every = "1s"
'''


def test_lines_of_tables_and_keys() -> None:
    document = Document("p.toml", TEXT)
    lines = {("source", ""): 2, ("source", "topic"): 3, ("source", "nsqd_http_address"): 4,
             ("tests#1", "name"): 16, ("run", "every"): 18,
             # What stands inside of a text of several lines is neither a header nor a key.
             ("sql", "topic"): 0}  # fmt: skip
    assert {place: document.line(*filter(None, place)) for place in lines} == lines


def test_an_error_names_the_place_as_far_as_it_is_known() -> None:
    document = Document("p.toml", TEXT)
    assert str(document.error("run", "every", "no")) == "p.toml:18: [run] no"
    assert str(document.error("run", "other", "no")) == "p.toml:17: [run] no"
    assert str(document.error("tests#0", "name", "no")) == "p.toml:14: [[tests]] no"
    assert str(document.error("", None, "no")) == "p.toml: no"
    with pytest.raises(PipelineFileError) as refused:
        document.require_known("run", ["evry"], ["every", "checkpoint"])  # sic
    assert str(refused.value) == "p.toml:17: [run] there is no key evry; did you mean every?"  # sic
    assert nearest("zzz", ["every", "checkpoint"]) == "; there are every, checkpoint"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[a]\nb = \n", r":2: column 5: invalid value"),
        (b'[pipeline] name = "x"', r":1: column 12: expected newline or end of document"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (None, "cannot be read: No such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "p.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PipelineFileError, match=rf"p\.toml.*{said}"):
        Document.load(file)
    with pytest.raises(PipelineFileError, match="cannot be read: Is a directory"):
        Document.load(tmp_path)


def test_variables_and_their_defaults() -> None:
    assert filled("${HOST}:${PORT:-4161}$", {"HOST": "h"}) == "h:4161$"
    assert filled("${HOST:-a}", {"HOST": ""}) == ""
    with pytest.raises(KeyError, match="PORT"):
        filled("${PORT}", {})


WHOLE = """\
[pipeline]
name = "api-metrics"

[source]
format = "nsq"
topic = "api_requests"
lookupd_http_address = ["l:4161", "m:4161"]
maxRecordsPerTrigger = 1000
failOnDataLoss = false
auth_secret = "${SECRET}"

[parse]
json = "ts timestamp, status int"
watermark = "ts 2 minutes"
bad = "api_requests.bad"

[sql]
query = "select count(*) as n from input"

[sink]
format = "parquet"
path = "/lake"
partitionBy = ["day"]

[run]
every = "10s"
checkpoint = "run/api-metrics"
packages = "io.delta:delta-spark_2.13:4.0.0"
settings = {"spark.driver.memory" = "2g"}

[[tests]]
name = "one"
input = [{status = 200}, "broken"]
output = [{n = 1}]
bad = [{reason = "the body is not JSON"}]
"""
SMALL = """\
[source]
topic = "t"
nsqd_http_address = "h:4151"
[sink]
topic = "u"
"""


def spec(text: str, name: str = "clicks.toml") -> Spec:
    return read(Document(name, text), {"SECRET": "s3cret"})


def refused(text: str) -> str:
    with pytest.raises(PipelineFileError) as error:
        spec(text)
    return str(error.value)


def test_a_whole_file() -> None:
    whole = spec(WHOLE)
    assert whole.name == "api-metrics"
    assert whole.source == Source(
        "nsq",
        {
            "topic": "api_requests",
            "lookupd_http_address": "l:4161,m:4161",
            "maxRecordsPerTrigger": "1000",
            "failOnDataLoss": "false",
            "auth_secret": "s3cret",
        },
    )
    assert whole.parse.json == "ts timestamp, status int"
    assert whole.parse.watermark == ("ts", "2 minutes")
    assert whole.parse.bad == "api_requests.bad"
    assert whole.query == "select count(*) as n from input"
    assert whole.sink == Sink("parquet", {"path": "/lake"}, ("day",))
    assert whole.run == Run(
        10_000, "run/api-metrics", ("io.delta:delta-spark_2.13:4.0.0",),
        {"spark.driver.memory": "2g"},
    )  # fmt: skip
    (case,) = whole.tests
    assert (case.name, case.place) == ("one", "clicks.toml:31")
    assert case.input == ({"status": 200}, "broken")
    assert case.output == ({"n": 1},)


def test_what_is_left_out_is_the_usual() -> None:
    small = spec(SMALL)
    assert (small.name, small.source.format, small.query) == ("clicks", "nsq", None)
    assert small.run == Run(1000, "run/clicks")
    # An nsq sink is on the source's nodes, unless it names others.
    assert small.sink == Sink("nsq", {"nsqd_http_address": "h:4151", "topic": "u"})
    other = spec(SMALL + 'nsqd_http_address = "o:4151"\n')
    assert other.sink.options == {"nsqd_http_address": "o:4151", "topic": "u"}


def test_options_have_the_names_of_the_documentation() -> None:
    text = SMALL.replace("topic", "subscribe", 1)
    small = spec(text.replace("[sink]", "MAXoffsetsPERtrigger = 9\n[sink]"))
    assert small.source.options == {
        "topic": "t", "nsqd_http_address": "h:4151", "maxRecordsPerTrigger": "9",
    }  # fmt: skip
    ends = 'format = "rocketmq"\ntopic = "t"\nnamesrvAddr = "n:9876"\n'
    both = spec(f"[source]\n{ends}[sink]\n{ends}")
    assert both.source == Source("rocketmq", {"topic": "t", "namesrvAddr": "n:9876"})
    assert both.sink == Sink("rocketmq", {"topic": "t", "namesrvAddr": "n:9876"})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('topic = "t"', 'topik = "t"',
         "clicks.toml:2: [source] format nsq knows no option topik; did you mean topic?"),
        ('topic = "t"', 'topic = "t"\nfetchBytes = "many"',
         "clicks.toml:3: [source] fetchBytes must be a positive whole number, not 'many'"),
        ('topic = "t"', 'topic = "t"\nsubscribe = "t"',
         "clicks.toml:3: [source] topic and subscribe are the same option: give one of them"),
        ('topic = "t"', 'topic = "t"\nendingOffsets = "latest"',
         "clicks.toml:3: [source] endingOffsets is for batch reads only: a stream has no end"),
        ('topic = "u"', 'topic = "u"\nexactlyOnce = true\nwriterId = "w"',
         "clicks.toml:7: [sink] writerId and writerBatch are for batch writes: a stream has its "
         "query id and the numbers of its batches"),
        ('topic = "u"', 'format = "rocketmq"\ntopic = "u"\nnamesrvAddr = "n:9876"\nwriterBatch = 1',
         "clicks.toml:8: [sink] writerId and writerBatch are for batch writes: a stream has its "
         "query id and the numbers of its batches"),
        ('topic = "u"', 'format = "rocketmq"\ntopic = "u"\nnamesrvAdr = "n:9876"',
         "clicks.toml:7: [sink] format rocketmq knows no option namesrvadr; did you mean "
         "namesrvAddr?"),
        ('topic = "t"', 'topic = ""', 'clicks.toml:2: [source] the option "topic" is missing'),
        ('topic = "t"', 'topic = {a = 1}',
         "clicks.toml:2: [source] topic is a text, a number, true or false, or a list of these"),
        ('topic = "t"', 'topic = "${NOBODY}"',
         "clicks.toml:2: [source] topic: the environment has no variable NOBODY"),
        ("[source]", "[sorce]",  # sic
         "clicks.toml:1: [sorce] there is no table sorce; did you mean source?"),  # sic
        ("[sink]", "[sql]", "clicks.toml: the table [sink] is missing"),
        ("[sink]", "[sink]\nformat = 7",
         "clicks.toml:5: [sink] format is a text in quotes, not 7"),
        ("[sink]", '[sink]\noutputMode = "upsert"',
         "clicks.toml:5: [sink] outputMode is append or update or complete, not 'upsert'"),
        ("[sink]", '[sink]\noutputMode = "update"',
         "clicks.toml:5: [sink] outputMode of format nsq is append or complete, not 'update'. With "
         "append each window or group is written once, when the watermark has passed it; a program "
         "of your own can write what has changed by foreachBatch"),
        ('topic = "u"', 'format = "parquet"\noutputMode = "complete"\npath = "lake"',
         "clicks.toml:6: [sink] outputMode of format parquet is append, not 'complete'"),
        ('topic = "u"', 'format = "json"',
         "clicks.toml:4: [sink] path is missing: the folder of the json"),
        ("[sink]", '[sink]\npartitionBy = "day"',
         "clicks.toml:5: [sink] partitionBy makes folders, and format nsq has none: leave it out"),
        ('topic = "t"', 'topic = "t"\nstartingOffsets = "newest"',
         "clicks.toml:3: [source] startingOffsets must be earliest, latest or JSON such as "
         '{"topic": {"host:4151": {"0": 42}}}, not \'newest\''),
        ('topic = "t"', 'topic = "t"\nnsqd_https_port = 70000',
         "clicks.toml:3: [source] nsqd_https_port must be a port, at most 65535, not '70000'"),
        ('topic = "u"', 'format = "rocketmq"\ntopic = "u"\nnamesrvAddr = "n:9876"\n'
         'producerGroup = "a\\nb"',
         "clicks.toml:8: [sink] producerGroup must be 1 to 255 printable characters, not 'a\\nb'"),
        ("[sink]", '[sink]\npartitionBy = [1]',
         'clicks.toml:5: [sink] partitionBy is a list of texts, such as ["a", "b"]'),
        ("[sink]", '[run]\nevery = "soon"\n[sink]',
         "clicks.toml:5: [run] every = 'soon': give a duration such as 500ms, 90s or 1h30m (units: "
         "ns, us, ms, s, m, h)"),
        ("[sink]", '[run]\nevery = "-1s"\n[sink]',
         "clicks.toml:5: [run] every = '-1s' is negative: give a duration such as 500ms, 90s "
         "or 1h30m (units: ns, us, ms, s, m, h)"),
        ("[sink]", '[run]\nsettings = 1\n[sink]',
         'clicks.toml:5: [run] settings is a table of Spark\'s, such as {"spark.driver.memory" = '
         '"2g"}'),
        ("[sink]", '[pipeline]\nname = "a b"\n[sink]',
         "clicks.toml:5: [pipeline] 'a b' is not a name: it has 1 to 64 letters, digits, dots, "
         "underscores, dashes"),
        ("[sink]", '[parse]\nwatermark = "ts"\n[sink]',
         'clicks.toml:5: [parse] watermark is a column and a delay, such as "ts 2 minutes", not '
         "'ts'"),
        ("[sink]", '[parse]\nbad = "b"\n[sink]',
         "clicks.toml:5: [parse] bad is for rows that do not parse as json"),
        ("[sink]", '[parse]\nunique = "id"\n[sink]',
         "clicks.toml:5: [parse] unique needs a watermark, which says how long a copy may be "
         "recognised"),
        ("[sink]", '[sql]\nqury = "x"\n[sink]',
         "clicks.toml:5: [sql] there is no key qury; did you mean query?"),  # sic
        ("[sink]", '[tests]\nname = "x"\n[sink]',
         "clicks.toml:4: [tests] write [[tests]] above each test"),
        ("[sink]", '[[tests]]\nname = "x"\n[sink]',
         "clicks.toml:4: [[tests]] 'x' needs input, and output or bad"),
        ("[sink]", '[[tests]]\ninput = [1]\noutput = []\n[sink]',
         "clicks.toml:5: [[tests]] input is a list of rows, such as [{n = 1}], or texts for "
         "bodies"),
        ("[source]", "source = 1\n[other]", "clicks.toml:2: [other] there is no table other; there "
         "are pipeline, source, parse, sql, sink, run, tests"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, said: str) -> None:
    assert refused(SMALL.replace(old, new)) == said


@pytest.mark.parametrize("topic", ['topic = "*"', 'topicPattern = "t|u.*"', 'topic = "t,u.bad"'])
def test_letters_do_not_come_back(topic: str) -> None:
    text = SMALL.replace("[sink]", '[parse]\njson = "n int"\nbad = "u.bad"\n[sink]')
    assert spec(text).parse.bad == "u.bad"
    assert refused(text.replace('topic = "t"', topic)) == (
        "clicks.toml:6: [parse] the source reads topic u.bad, too: letters would come back as "
        'rows. Leave it out, as topicPattern = "(?!u.bad$).*" does'
    )
    without = text.replace('topic = "t"', 'topicPattern = "(?!u.bad$).*"')
    assert spec(without).parse.bad == "u.bad"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[source]\nformat = "kafka"\n[parse]\njson = "n int"\nbad = "t.bad"\n'
         '[sink]\nformat = "console"\n',
         'clicks.toml:5: [parse] bad is a topic on the nodes of the source, so with format = "nsq"'
         " and its log"),
        ('[source]\nformat = "text"\npath = "in"\n'
         '[sink]\nformat = "http"\nurl = "http://h/"\ndeadLetters = "refused"\n',
         "clicks.toml:7: [sink] deadLetters=refused is a topic: say on which nodes, by "
         "nsqd_http_address or lookupd_http_address (host:port, several separated by commas)"),
    ],
    ids=["bad rows", "dead letters"],
)  # fmt: skip
def test_bad_rows_and_dead_letters_need_nodes(text: str, said: str) -> None:
    assert refused(text) == said


CHANNEL = """\
[source]
mode = "channel"
subscribe = "t"
channel = "spark"
nsqd_tcp_address = "h:4150"
stagingLocation = "/shared/t"
[sink]
format = "noop"
"""


def test_a_channel_is_a_source_with_options_of_its_mode() -> None:
    source = spec(CHANNEL).source
    assert (source.format, source.options["topic"], source.reads_log) == ("nsq", "t", False)
    assert spec(SMALL).source.reads_log
    assert refused(CHANNEL.replace("channel =", "chanel =")) == (  # sic
        "clicks.toml:4: [source] format nsq with mode=channel knows no option "
        "chanel; did you mean channel?"  # sic
    )
    bad = CHANNEL + '[parse]\njson = "n int"\nbad = "t.bad"\n'
    assert "bad is a topic on the nodes of the source" in refused(bad)


_TIME = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is not set to UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def frame(schema: StructType, *values: Any) -> Any:
    """A row as PySpark makes it of what Java gives, in a frame."""
    rows = [schema.fromInternal(values)]
    limited = SimpleNamespace(collect=lambda: rows)
    return SimpleNamespace(schema=schema, columns=schema.fieldNames(), limit=lambda _: limited)


@pytest.mark.usefixtures("elsewhere")
def test_times_are_those_that_were_wanted_whatever_this_machines_zone() -> None:
    us = int(_TIME.timestamp() * 1_000_000)
    local = _TIME.replace(tzinfo=None)
    of_no_zone = TimestampNTZType()
    part = StructType().add("ts", TimestampType()).add("local", of_no_zone)
    schema = (
        StructType(list(part.fields))
        .add("locals", ArrayType(of_no_zone))
        .add("named", MapType(StringType(), of_no_zone))
        .add("part", part)
    )
    came = frame(schema, us, us, [us], {"a": us}, (us, us))
    wanted = {
        "ts": _TIME, "local": local, "locals": [local], "named": {"a": local},
        "part": {"local": local, "ts": _TIME},
    }  # fmt: skip
    case = Case("times", "p.toml:1", (), (wanted,), None)
    found = cases._difference(case, "output", came, (wanted,))
    assert (found.missing, found.unwanted) == ((), ())
