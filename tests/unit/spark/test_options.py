"""Options of readers and streams: how they are declared, what is refused, what the page says."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import pytest

from penstock.core.units import MINUTE
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import (
    boolean,
    option,
    options_of,
    parse,
    positive,
    require_known,
    seconds,
    table,
    text,
    unknown,
)
from penstock.spark.read.decode import TYPES
from penstock.spark.schema import SCHEMA
from penstock.spark.source_settings import COLUMNS, ORIGIN_COLUMNS, SourceSettings
from tools.pages.spark_options import PAGE, TABLES, split


@dataclass(frozen=True)
class Options:
    name: str = option("fullName", text, "nobody", "A name.", shown="nobody")
    count: int | None = option("count", positive, None, "How many.")
    secret: str = option("secret", text, "", "Nobody sees it.", secret=True)
    end: str | None = option("end", text, None, "The last.", only="batch")
    rate: int | None = option("rate", positive, None, "Speed.", only="stream", aliases=("pace",))
    derived: int = 5


def test_texts_become_fields_whatever_the_case() -> None:
    given = {"FULLNAME": "a", "count": " 3 ", "path": "x"}
    assert parse(Options, given, {"path"}) == {"name": "a", "count": 3}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fulname", "format nsq knows no option fulname; did you mean fullName?"),
        ("colour", "format nsq knows no option colour"),
        ("derived", "format nsq knows no option derived"),
        ("Pase", "format nsq knows no option Pase; did you mean pace?"),  # sic
    ],
)
def test_an_unknown_option(name: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(Options, {name: "1"}, set())
    assert str(refused.value) == said


def test_unknown_options_are_named_at_once_and_without_their_values() -> None:
    assert unknown(Options, ["COUNT", "Pace", "fulName", "Secrets", "colour"]) == {  # sic
        "Secrets": "secret", "colour": "", "fulName": "fullName",  # sic
    }  # fmt: skip
    require_known(Options, ["COUNT", "Pace"])
    with pytest.raises(OptionError) as refused:
        require_known(Options, ["cuont", "count", "colour"], "mine")
    said = "format mine knows no option colour, no option cuont; did you mean count?"
    assert str(refused.value) == said


def test_an_alias_is_the_option_itself() -> None:
    assert parse(Options, {"PACE": "3"}) == {"rate": 3}
    with pytest.raises(OptionError, match="pace must be a positive whole number, not 'x'"):
        parse(Options, {"pace": "x"})
    with pytest.raises(OptionError, match="rate and pace are the same option: give one of them"):
        parse(Options, {"pace": "3", "rate": "3"})


def test_a_bound_that_a_stream_does_not_have_is_refused() -> None:
    assert parse(Options, {"end": "now"}, read="batch") == parse(Options, {"end": "now"})
    with pytest.raises(OptionError, match="end is for batch reads only: a stream has no end"):
        parse(Options, {"end": "now"}, read="stream")


def test_an_option_of_streams_does_nothing_in_a_batch_read_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        assert parse(Options, {"pace": "3"}, read="batch") == {"rate": 3}
    assert [record.message for record in caplog.records] == [
        "option pace is for streams only and does nothing in a batch read"
    ]


@pytest.mark.parametrize("given", ["0", "-1", "x", "", str(2**63), "9" * 5000])
def test_a_count_is_positive(given: str) -> None:
    with pytest.raises(OptionError, match="count must be a positive whole number, not "):
        parse(Options, {"count": given}, set())


def test_the_largest_numbers_and_times_and_the_letters_of_true_and_false() -> None:
    # As Kafka's source takes the largest of Java's numbers.
    assert parse(Options, {"count": "9223372036854775807"}) == {"count": 2**63 - 1}
    with socket.socket() as unused:  # which takes no longer time
        unused.settimeout(seconds("timeout", "9" * 18))
    assert boolean("a", "TRUE") is True
    assert boolean("a", " false") is False


def test_the_table_of_options_and_a_secret_that_is_not_shown() -> None:
    assert table(Options) == (
        "| option | default | |\n|---|---|---|\n| `fullName` | `nobody` | A name. |\n"
        "| `count` |  | How many. |\n| `secret` |  | Nobody sees it. |\n"
        "| `end` |  | The last. Batch reads only. |\n"
        "| `rate` |  | Speed. Streams only. Also `pace`. |\n"
    )
    assert "hidden" not in repr(Options(secret="hidden"))


@pytest.mark.parametrize("of", TABLES)
def test_the_page_has_the_options_that_there_are(of: str) -> None:
    """`make pages` writes its tables."""
    _, written, _ = split(PAGE.read_text(encoding="utf-8"), of)
    assert written.strip() == TABLES[of].strip()


def test_no_two_options_share_a_name() -> None:
    names = [name.lower() for _, each in options_of(SourceSettings) for name in each.names]
    assert len(set(names)) == len(names)


def test_names_are_case_insensitive_and_addresses_may_be_urls() -> None:
    settings = SourceSettings.parse(
        {
            "Topic": "a, b",
            "LOOKUPD_HTTP_ADDRESS": "http://h:4161/, i:4161",
            "maxRecordsPerTrigger": "5",
            "failOnDataLoss": "False",
        }
    )
    assert settings.topics == ("a", "b")
    assert settings.lookupd == ("h:4161", "i:4161")
    assert settings.records_max == 5
    assert not settings.fail_on_data_loss
    assert settings.partitions_min == 0
    assert settings.starting is None
    assert not settings.every_topic
    for address in ("[::1]:4161", "h:4161/lookup?token=1", "https://h/lookup", "http://h:4161"):
        settings = SourceSettings.parse({"topic": "t#ephemeral", "lookupd_http_address": address})
        assert settings.lookupd == (address.removeprefix("http://"),)


NODE = {"topic": "t", "nsqd_http_address": "a:1"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": None}, 'the option "topic" is missing'),
        ({"nsqd_http_address": None}, "say where the nodes are"),
        ({"lookupd_http_address": "b:1"}, "one of the two"),
        ({"maxRecordsPerTrigger": "-4"}, "maxRecords"),
        ({"failOnDataLoss": "no"}, "true or false"),
        ({"mode": "channel"}, "mode=channel is for streams of Spark with format nsq"),
        ({"mode": "tail"}, 'mode must be "log" or "chan'),
        ({"color": "red"}, "knows no option color"),
        ({"nsqd_http_address": "a:http"}, "not 'a:http'"),
        ({"nsqd_http_address": "https://h"}, "not 'https://h'"),
        ({"topic": "a,b!"}, "topic name 'b!' is invalid"),
        ({"tls_key": "k"}, "no use without tls_cert"),
        ({"nsqd_http_address": "https://a:1", "tls_v1": "false"}, "leave it out"),
        ({"topic": "a,*"}, "a * alone is every topic"),
        ({"subscribe": "t"}, "topic and subscribe are the same option: give one of them"),
        ({"path": "t"}, 'topic and load("...") are the same option: give one of them'),
        ({"subscribePattern": "t.*"}, "give topic or topicPattern, not both"),
        ({"maxRecordsPerTrigger": "1", "maxOffsetsPerTrigger": "1"}, "are the same option"),
        ({"columns": "body, value"},
         "columns must be some of topic, body, id, timestamp, attempts, node, queue, offset, ori"),
        ({"columns": "body,body"}, "each once, not"),
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
         "minRecordsPerTrigger is more than maxRecordsPerTrigger"),
        ({"maxTriggerDelay": "15m"}, "maxTriggerDelay is of no use without minRecordsPerTrigger"),
        ({"minRecordsPerTrigger": "6", "maxTriggerDelay": "soon"},
         "must be a duration such as 30s or 1h30m, not"),
        ({"group": "g", "groupIdPrefix": "g"}, "give group or groupIdPrefix, not both"),
        ({"group": "g\n"}, "group must be 1 to 256 printable characters, not 'g\\n'"),
        ({"groupIdPrefix": ""}, "1 to 240 printable"),
        ({"startingTimestamp": "soon"},
         "startingTimestamp must be a time such as 2026-01-31T12:00:00Z"),
        ({"startingTimestamp": "-1h", "startingOffsets": "latest"},
         "give startingOffsets or startingTimestamp, not both"),
        ({"endingTimestamp": "-1h", "endingOffsets": "latest"},
         "give endingOffsets or endingTimestamp, not both"),
    ],
)  # fmt: skip
def test_refused(options: dict[str, str | None], said: str) -> None:
    given = {name: value for name, value in (NODE | options).items() if value is not None}
    with pytest.raises(OptionError) as refused:
        SourceSettings.parse(given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("t(", "topicPattern='t(' is not a regular expression: missing ), unterminated subpattern"),
        ("t{9999999999}",
         "topicPattern='t{9999999999}' is not a regular expression: the repetition number"),
    ],
)  # fmt: skip
def test_a_pattern_that_is_none(pattern: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceSettings.parse({"topicPattern": pattern, "nsqd_http_address": "a:1"})
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["topic", "subscribe", "path"])
def test_topics_and_limits_as_users_of_kafka_and_of_load_name_them(name: str) -> None:
    limits = {"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h30m"}
    settings = SourceSettings.parse({name: "a,b", "nsqd_http_address": "h:1", **limits})
    assert settings.topics == ("a", "b")
    assert (settings.reads("a"), settings.reads("c")) == (True, False)
    assert not settings.finds_topics
    assert (settings.records_max, settings.records_min) == (9, 3)
    assert settings.trigger_delay_ns == 90 * MINUTE


def test_columns_are_known_whatever_the_other_options_are() -> None:
    assert SourceSettings.columns_in({"exactlyOnce": "true"}) == COLUMNS
    assert SourceSettings.columns_in({"Columns": "offset, body"}) == ("offset", "body")
    for kinds in (TYPES, SCHEMA.fieldNames()):
        assert tuple(kinds) == COLUMNS + ORIGIN_COLUMNS


@pytest.mark.parametrize("name", ["topicPattern", "subscribePattern"])
def test_a_pattern_is_for_the_whole_name(name: str) -> None:
    settings = SourceSettings.parse({name: "log[.].*|x", "nsqd_http_address": "h:1"})
    wanted = [each for each in ("log.a", "x", "xy", "my.log.a", "log") if settings.reads(each)]
    assert wanted == ["log.a", "x"]
    assert settings.finds_topics


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "Latest"},
         "startingOffsets=latest leaves nothing to read in a batch read"),
        ({"endingOffsets": "earliest"},
         "endingOffsets=earliest leaves nothing to read in a batch read"),
        ({"startingOffsets": '{"t": {"a:1": {"0": 5, "1": -1}}}'},
         "startingOffsets gives -1 (latest) for topic t (queue 1), which leaves nothing to read"
         " there in a batch read"),
        ({"endingOffsets": '{"t": {"0": -2}}'},
         "endingOffsets gives -2 (earliest) for topic t (queue 0), which leaves nothing to read"
         " there in a batch read"),
        ({"startingOffsets": "group", "group": "g"},
         "startingOffsets=group is for streams only: a batch read has no group"),
    ],
)  # fmt: skip
def test_a_batch_read_of_nothing_is_refused(options: dict[str, str], said: str) -> None:
    node = {"topic": "t", "nsqd_http_address": "a:1"}
    with pytest.raises(OptionError) as refused:
        SourceSettings.parse(node | options, "batch")
    assert str(refused.value) == said
    usual = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    assert SourceSettings.parse(node | usual, "batch").ending == "latest"


def test_a_start_at_the_group_names_it() -> None:
    node = {"topic": "t", "nsqd_http_address": "a:1", "startingOffsets": "group"}
    assert SourceSettings.parse(node | {"group": "g"}, "stream").starting == "group"
    with pytest.raises(OptionError, match="startingOffsets=group needs the option group"):
        SourceSettings.parse(node, "stream")
