"""Options of the sink ``rocketmq``."""

from __future__ import annotations

import pytest

from penstock.rocketmq.blocking import Account
from penstock.spark.errors import OptionError
from penstock.spark.options import table
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.sink.rocketmq.settings import TOPIC, Settings, invalid_topic
from tools.pages.spark_options import PAGE, ROCKETMQ_SINK, split

SERVERS = {"namesrvAddr": "a:1;b:2"}
EXACT = {"exactlyOnce": "true", "nsqd_http_address": "a:1,b:2"}


def test_brokers_are_found_and_asked_as_a_source_does() -> None:
    settings = Settings.parse(
        {**SERVERS, "path": "t", "accessKey": "k", "secretKey": "s", "tls_server_name": "n"}
    )
    assert settings.topic == "t"
    assert "'s'" not in repr(settings)
    directory = settings.directory()
    assert directory.namesrv == ("a:1", "b:2")
    access = directory.access
    assert isinstance(access, BrokerAccess)
    assert (access.account, access.tls, access.server_name) == (Account("k", "s"), True, "n")


def test_rows_are_staged_at_brokers_over_http() -> None:
    staging = Settings.parse(
        {**EXACT, "timeout": "3", "writerId": "w", "writerBatch": "5"}
    ).staging()
    assert (staging.nodes, staging.access.timeout_s) == (("a:1", "b:2"), 3.0)
    assert (staging.writer, staging.writer_batch) == ("w", 5)
    staging.require_writer(streaming=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say where to write: namesrvAddr"),
        ({"namesrvAddr": "a"}, "namesrvAddr must be host:port"),
        ({**SERVERS, "accessKey": "k"}, "accessKey and secretKey"),
        ({**SERVERS, "topic": "a b"}, "topic name 'a b' is invalid"),
        ({**SERVERS, "topic": "orders.eu"}, "topic name 'orders.eu' is invalid"),
        ({**SERVERS, "topic": "a,b"}, "topic name 'a,b' is invalid"),
        ({**SERVERS, "topic": "*"}, "topic name '*' is invalid"),
        (
            {**SERVERS, "exactlyOnce": "true"},
            "the only one of Java's brokers, cannot",
        ),
        ({**SERVERS, **EXACT}, "leave namesrvAddr and accessKey out"),
        ({**SERVERS, "nsqd_http_address": "a:1"}, "nsqd_http_address is for exactlyOnce=true"),
        ({**EXACT, "topic": "a b"}, "topic name 'a b' is invalid"),
        ({**EXACT, "writerId": "w" * 129}, "writerId has more than 128 characters"),
        ({**EXACT, "nsqd_http_address": "a"}, "nsqd_http_address must be host:port"),
        ({**SERVERS, "tls_key": "k"}, "no use without tls_cert"),
    ],
)
def test_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.parse(options)
    assert said in str(refused.value)


def test_the_documentation_has_the_options_that_there_are() -> None:
    """`make pages` writes the table."""
    _, written, _ = split(PAGE.read_text(encoding="utf-8"), ROCKETMQ_SINK)
    assert written.strip() == table(Settings).strip()


@pytest.mark.parametrize("name", ["t", "%RETRY%g", "a-b_C|9", "x" * 127])
def test_names_that_topics_can_have(name: str) -> None:
    assert TOPIC.fullmatch(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ü", "x" * 128])
def test_names_that_they_cannot_have(name: str) -> None:
    assert not TOPIC.fullmatch(name)
    assert repr(name)[1:-1] in invalid_topic(name)
