"""Options of ``format("nsq")``."""

from __future__ import annotations

import pytest

from penstock.core.units import MINUTE
from penstock.spark.errors import OptionError
from penstock.spark.options import options_of, table
from penstock.spark.read.decode import TYPES
from penstock.spark.schema import SCHEMA
from penstock.spark.settings import COLUMNS, ORIGIN_COLUMNS, Settings
from tools.pages.spark_options import PAGE, split


def test_names_are_case_insensitive_and_addresses_may_be_urls() -> None:
    settings = Settings.parse(
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, 'the option "topic" is missing'),
        ({"topic": "t"}, "say where the nodes are"),
        ({"topic": "t", "nsqd_http_address": "a:1", "lookupd_http_address": "b:1"}, "one of the"),
        ({"topic": "t", "nsqd_http_address": "a:1", "maxRecordsPerTrigger": "-4"}, "maxRecords"),
        ({"topic": "t", "nsqd_http_address": "a:1", "failOnDataLoss": "no"}, "true or false"),
        ({"topic": "t", "nsqd_http_address": "a:1", "mode": "channel"},
         "mode=channel is for streams of Spark with format nsq"),
        ({"topic": "t", "nsqd_http_address": "a:1", "mode": "tail"}, 'mode must be "log" or "chan'),
        ({"topic": "t", "nsqd_http_address": "a:1", "color": "red"}, "knows no option color"),
        ({"topic": "t", "nsqd_http_address": "a:1,nohost"},
         "nsqd_http_address must be host:port, such as 127.0.0.1:4151, not 'nohost'"),
        ({"topic": "t", "nsqd_http_address": "a:http"}, "not 'a:http'"),
        ({"topic": "t", "lookupd_http_address": "nohost/lookup"},
         "lookupd_http_address must be host:port, such as 127.0.0.1:4161, not 'nohost/lookup'"),
        ({"topic": "a,b!", "nsqd_http_address": "a:1"}, "topic name 'b!' is invalid"),
        ({"topic": "t", "nsqd_http_address": "https://h"}, "not 'https://h'"),
        ({"topic": "t", "nsqd_http_address": "a:1", "tls_key": "k"}, "no use without tls_cert"),
        ({"topic": "t", "nsqd_http_address": "https://a:1", "tls_v1": "false"}, "leave it out"),
        ({"topic": "t", "nsqd_http_address": "a:1", "tls_cert": "c", "tls_v1": "false"}, "leave"),
        ({"topic": "a,*", "nsqd_http_address": "a:1"}, "a * alone is every topic"),
        ({"topic": "t", "nsqd_http_address": "a:1", "subscribe": "t"},
         "topic and subscribe are the same option: give one of them"),
        ({"topic": "t", "nsqd_http_address": "a:1", "path": "t"},
         'topic and load("...") are the same option: give one of them'),
        ({"topic": "t", "nsqd_http_address": "a:1", "subscribePattern": "t.*"},
         "give topic or topicPattern, not both"),
        ({"topicPattern": "t(", "nsqd_http_address": "a:1"},
         "topicPattern='t(' is no regular expression: missing ), unterminated subpattern"),
        ({"topicPattern": "t{9999999999}", "nsqd_http_address": "a:1"},
         "topicPattern='t{9999999999}' is no regular expression: the repetition number"),
        ({"topic": "t", "nsqd_http_address": "a:1", "maxRecordsPerTrigger": "1",
          "maxOffsetsPerTrigger": "1"}, "are the same option"),
        ({"topic": "t", "nsqd_http_address": "a:1", "columns": "body, value"},
         "columns must be some of topic, body, id, timestamp, attempts, node, queue, offset, ori"),
        ({"topic": "t", "nsqd_http_address": "a:1", "columns": "body,body"}, "each once, not"),
        ({"topic": "t", "nsqd_http_address": "a:1", "minOffsetsPerTrigger": "6",
          "maxOffsetsPerTrigger": "5"}, "minRecordsPerTrigger is more than maxRecordsPerTrigger"),
        ({"topic": "t", "nsqd_http_address": "a:1", "maxTriggerDelay": "15m"},
         "maxTriggerDelay is of no use without minRecordsPerTrigger"),
        ({"topic": "t", "nsqd_http_address": "a:1", "minRecordsPerTrigger": "6",
          "maxTriggerDelay": "soon"}, "must be a duration such as 30s or 1h30m, not"),
        ({"topic": "t", "nsqd_http_address": "a:1", "group": "g", "groupIdPrefix": "g"},
         "give group or groupIdPrefix, not both"),
        ({"topic": "t", "nsqd_http_address": "a:1", "group": "g\n"},
         "group must be 1 to 256 printable characters, not 'g\\n'"),
        ({"topic": "t", "nsqd_http_address": "a:1", "groupIdPrefix": ""}, "1 to 240 printable"),
        ({"topic": "t", "nsqd_http_address": "a:1", "startingTimestamp": "soon"},
         "startingTimestamp must be a time such as 2026-01-31T12:00:00Z"),
        ({"topic": "t", "nsqd_http_address": "a:1", "startingTimestamp": "-1h",
          "startingOffsets": "latest"}, "give startingOffsets or startingTimestamp, not both"),
        ({"topic": "t", "nsqd_http_address": "a:1", "endingTimestamp": "-1h",
          "endingOffsets": "latest"}, "give endingOffsets or endingTimestamp, not both"),
    ],
)  # fmt: skip
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.parse(options)
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["topic", "subscribe", "path"])
def test_topics_as_users_of_kafka_and_of_load_name_them(name: str) -> None:
    settings = Settings.parse({name: "a,b", "nsqd_http_address": "h:1"})
    assert settings.topics == ("a", "b")
    assert (settings.reads("a"), settings.reads("c")) == (True, False)
    assert not settings.finds_topics


def test_limits_as_users_of_kafka_name_them() -> None:
    given = {"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h30m"}
    settings = Settings.parse({"topic": "t", "nsqd_http_address": "h:1", **given})
    assert (settings.records_max, settings.records_min) == (9, 3)
    assert settings.trigger_delay_ns == 90 * MINUTE


def test_columns_are_known_whatever_the_other_options_are() -> None:
    assert Settings.columns_in({"exactlyOnce": "true"}) == COLUMNS
    assert Settings.columns_in({"Columns": "offset, body"}) == ("offset", "body")


@pytest.mark.parametrize("name", ["topicPattern", "subscribePattern"])
def test_a_pattern_is_for_the_whole_name(name: str) -> None:
    settings = Settings.parse({name: "log[.].*|x", "nsqd_http_address": "h:1"})
    wanted = [each for each in ("log.a", "x", "xy", "my.log.a", "log") if settings.reads(each)]
    assert wanted == ["log.a", "x"]
    assert settings.finds_topics


@pytest.mark.parametrize(
    "address", ["[::1]:4161", "h:4161/lookup?token=1", "https://h/lookup", "http://h:4161"]
)
def test_ways_to_give_nsqlookupd(address: str) -> None:
    settings = Settings.parse({"topic": "t#ephemeral", "lookupd_http_address": address})
    assert settings.lookupd == (address.removeprefix("http://"),)


def test_no_two_options_share_a_name() -> None:
    names = [name.lower() for _, each in options_of(Settings) for name in each.names]
    assert len(set(names)) == len(names)


def test_the_documentation_has_the_options_that_there_are() -> None:
    """`make pages` writes the table."""
    _, written, _ = split(PAGE.read_text(encoding="utf-8"))
    assert written.strip() == table(Settings).strip()


def test_each_column_has_a_type_and_is_decoded() -> None:
    assert tuple(TYPES) == COLUMNS + ORIGIN_COLUMNS
    assert tuple(SCHEMA.fieldNames()) == COLUMNS + ORIGIN_COLUMNS


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
        Settings.parse(node | options, "batch")
    assert str(refused.value) == said
    usual = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    assert Settings.parse(node | usual, "batch").ending == "latest"


def test_a_start_at_the_group_names_it() -> None:
    node = {"topic": "t", "nsqd_http_address": "a:1", "startingOffsets": "group"}
    assert Settings.parse(node | {"group": "g"}, "stream").starting == "group"
    with pytest.raises(OptionError, match="startingOffsets=group needs the option group"):
        Settings.parse(node, "stream")
