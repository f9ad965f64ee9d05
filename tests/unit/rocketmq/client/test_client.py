"""What a program gives to a client, and what it sees: options, names, messages, errors, ids."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

import penstock.rocketmq.client as client
from penstock.core.errors import ConfigError
from penstock.core.units import SECOND
from penstock.rocketmq.client import errors, names
from penstock.rocketmq.client.config import OPTIONS, Config
from penstock.rocketmq.client.consume.consuming import Consumption
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.events import EVENTS, tell
from penstock.rocketmq.client.identity import UniqueIds, client_id
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.tls import context_of
from penstock.rocketmq.client.views import ConsumerView
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import FakeClock, MemoryHub

# --- options --------------------------------------------------------------------------------------


def test_options_are_set_from_texts_by_our_names_and_by_javas() -> None:
    config = Config().with_option("send-msg-timeout", "500ms").with_option("namesrvAddr", "a:1")
    assert (config.send_msg_timeout, config.namesrv_addr) == (0.5, "a:1")
    assert config.with_option("tls_enable").tls_enable


@pytest.mark.parametrize(
    ("words", "make"),
    {
        "send_msg_timeout": lambda: Config().with_option("sendMsgTimeout", "soon"),
        "nothing": lambda: Config().with_option("nothing", "1"),
        "pull_batch_size": lambda: Config().with_option("pull_batch_size", "2000"),
        "serialization": lambda: Config().with_option("serialization", "XML"),
        "compress_level": lambda: Config(compress_level=10).validate(),
        "give both": lambda: Config(access_key="me").validate(),
        "broker_suspend_max_time": lambda: Config(consumer_pull_timeout=10.0).validate(),
    }.items(),
)
def test_what_cannot_be_used_is_refused(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_every_option_has_a_help_and_secrets_are_not_shown() -> None:
    assert all(each.help.endswith(".") for each in OPTIONS.values())
    assert "shh" not in repr(Config(access_key="me", secret_key="shh", security_token="shh"))


def test_tls_is_what_it_is_asked_to_be() -> None:
    assert context_of(Config()) is None
    own = ssl.create_default_context()
    assert context_of(Config(tls_enable=True, tls_config=own)) is own


def test_servers_must_prove_who_they_are_unless_told_otherwise(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for options, mode in (
        ({"tls_trust_cert_path": str(tmp_path / "ca.pem")}, ssl.CERT_REQUIRED),
        ({"tls_auth_server": False}, ssl.CERT_NONE),
    ):
        context = context_of(replace(Config(tls_enable=True), **options))
        assert context is not None
        assert context.verify_mode is mode


@pytest.mark.parametrize(
    ("options", "words"),
    [({"tls_key_path": "key.pem"}, "tls_cert_path"), ({"tls_trust_cert_path": "/no"}, "/no")],
)
def test_files_of_tls_that_cannot_be_used_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.BadTlsOptions, match=words):
        context_of(replace(Config(tls_enable=True), **options))


# --- names and messages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "name", "words"),
    [
        *((names.checked_topic, name, "is blank") for name in ("", "  ")),
        *((names.checked_topic, name, "illegal characters") for name in ("a b", "ümlaut", "a.b")),
        (names.checked_topic, "x" * 128, "max length 127"),
        (names.checked_group, "g" * 256, "max length 255"),
        (names.checked_group, "DEFAULT_PRODUCER", "specify another"),
        (names.checked_destination, "RMQ_SYS_TRANS_HALF_TOPIC", "forbidden"),
    ],
)
def test_bad_names_are_refused(check: Callable[[str], str], name: str, words: str) -> None:
    with pytest.raises(errors.BadName, match=words):
        check(name)


def test_good_names_stay_and_are_texts() -> None:
    assert names.checked_topic("%RETRY%a-b_c") == "%RETRY%a-b_c"
    assert names.checked_group("g" * 255)
    with pytest.raises(TypeError):
        names.checked_topic(b"T")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "wrapped"),
    [("T", "ns%T"), ("%RETRY%G", "%RETRY%ns%G"), ("%DLQ%G", "%DLQ%ns%G"),
     ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC")],
)  # fmt: skip
def test_a_namespace_stands_before_a_name(plain: str, wrapped: str) -> None:
    assert names.wrap("ns", plain) == wrapped
    assert names.wrap("ns", wrapped) == wrapped
    assert names.unwrap("ns", wrapped) == plain
    assert names.wrap("", plain) == names.unwrap("", plain) == plain


def test_properties_as_they_are_sent() -> None:
    message = Message("T", b"x", tags="a", keys=["k", "l"], properties={"who": "me"},
                      sharding_key="s", delay_level=3, wait_store=False)  # fmt: skip
    assert message.to_properties("ID") == {
        "UNIQ_KEY": "ID", "WAIT": "false", "TAGS": "a", "KEYS": "k l", "__SHARDINGKEY": "s",
        "DELAY": "3", "who": "me",
    }  # fmt: skip
    assert Message("T", b"x", delay=1.5).to_properties("ID")["TIMER_DELAY_MS"] == "1500"
    assert Message("T", b"x", deliver_at=2.0).to_properties("ID")["TIMER_DELIVER_MS"] == "2000"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"body": b""}, errors.BadMessage),
        ({"body": b"x" * 11}, errors.BadMessage),
        ({"body": "text"}, TypeError),
        ({"delay": 1.0, "delay_level": 1}, errors.BadMessage),
        ({"properties": {"": "x"}}, errors.BadMessage),
        ({"properties": {"x": ""}}, errors.BadMessage),
        ({"properties": {"x": "a\x01b"}}, errors.BadMessage),
        ({"properties": {"UNIQ_KEY": "x"}}, errors.BadMessage),
    ],
)
def test_what_no_broker_would_take_is_refused(more: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        Message(**{"topic": "T", "body": b"x", **more}).check(10)


# --- errors and events ----------------------------------------------------------------------------


def test_each_code_has_its_exception_and_a_new_one_is_told_by_its_number() -> None:
    error = errors.refusal("b:1", 17, "topic[T] not exist", "topic T")
    assert type(error) is errors.TopicNotExist
    assert str(error) == "b:1 (topic T): TOPIC_NOT_EXIST 17: topic[T] not exist"
    error = errors.refusal("b:1", 4711, None)
    assert type(error) is errors.BrokerError
    assert str(error) == "b:1: code 4711: without a reason"


def test_a_failed_send_tells_each_reason_once() -> None:
    reasons = [errors.NotConnected("b:1", "refused"), errors.NotConnected("b:1", "refused")]
    error = errors.SendFailed("T", reasons)
    told = "Send [2] times, still failed, Topic: T - b:1: refused"
    assert str(error) == f"{told}; {errors.NotConnected.REMEDY}"
    assert (error.told, error.remedy) == (told, errors.NotConnected.REMEDY)
    assert error.errors == tuple(reasons)


@pytest.mark.parametrize(
    ("error", "told", "helps"),
    [
        (errors.NotConnected("b:1", "refused"), "b:1: refused", "see that it runs"),
        (errors.TimedOut("b:1", "no answer"), "b:1: no answer", "request_timeout"),
        (errors.no_broker("b"), "b: The broker[b] not exist", "mqadmin clusterList"),
        (errors.refusal("b:1", 16, "denied"), "b:1: NO_PERMISSION 16: denied", "updateTopicPerm"),
        (errors.NoReply("nobody", "wait"), "nobody", "wait"),
        (errors.Stopped(), "the client is closed", "make another one"),
    ],
)
def test_the_reason_comes_first_and_then_what_helps(
    error: errors.ClientError, told: str, helps: str
) -> None:
    assert str(error).startswith(f"{told}; ")
    assert helps in str(error)


def test_a_name_that_the_library_does_not_have() -> None:
    with pytest.raises(AttributeError):
        _ = client.nothing


def test_the_list_of_events_is_what_the_source_says() -> None:
    said = set[str]()
    for path in Path(client.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        said |= set(re.findall(r'tell\(\s*(?:logging\.\w+|level),\s*"([a-z-]+)"', text))
        for pair in re.findall(r'event = "([a-z-]+)" if .* else "([a-z-]+)"', text):
            said.update(pair)
    assert said == EVENTS


def test_a_line_for_people_and_fields_for_programs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        tell(logging.INFO, "connected", "hello", address="b:1", group="G", topic="T")
    (record,) = caplog.records
    assert record.getMessage() == "[G] (b:1) hello"
    assert record.rocketmq == {"event": "connected", "address": "b:1", "group": "G", "topic": "T"}  # type: ignore[attr-defined]


# --- ids ------------------------------------------------------------------------------------------


def test_no_two_clients_have_the_same_id() -> None:
    clock = FakeClock()
    config = Config(client_ip="10.0.0.1")
    assert client_id(config, clock) != client_id(config, clock)
    named = Config(client_ip="10.0.0.1", instance_name="me", unit_name="u")
    assert client_id(named, clock) == "10.0.0.1@me@u"


def test_ids_of_messages_have_javas_layout() -> None:
    clock = FakeClock()  # 2023-11-14 22:13:20 UTC
    ids = UniqueIds(clock, "10.0.0.1")
    first, second = ids.next(), ids.next()
    assert len(first) == 32
    assert first.startswith("0A000001")
    since_month = ((13 * 24 + 22) * 3600 + 13 * 60 + 20) * 1000
    assert int(first[20:28], 16) == since_month
    assert int(second[28:], 16) == int(first[28:], 16) + 1
    clock.now += 31 * 24 * 3600 * SECOND
    assert int(ids.next()[20:28], 16) == since_month + 24 * 3600 * 1000  # November has 30 days
    assert UniqueIds(clock, "10.0.0.1").next() != UniqueIds(clock, "10.0.0.1").next()
    assert len(UniqueIds(clock, "not-an-address").next()) == 32


# --- what is seen of a consumer -------------------------------------------------------------------


class Client(ConsumerView):
    """One that has begun."""

    def __init__(self, hub: MemoryHub, topic: str = "T") -> None:
        self._hub = hub
        self._core = Consumption("G", hub, ConsumerKind())
        Brokers(hub, topic)
        self.told: list[list[MessageQueue]] = []
        self.on_queues_changed = self.told.append
        self.subscribe("T")
        hub.does(self._core.begin())
        hub.passes(1)


def test_a_consumer_shows_its_queues_and_connections() -> None:
    hub = MemoryHub()
    client = Client(hub)
    assert client.on_queues_changed == client.told.append
    queues = [MessageQueue("a", number, "T") for number in range(2)]
    assert [each.queue for each in client.queues] == queues
    assert {(each.broker, each.topic) for each in client.queues} == {("a", "T")}
    assert client.told == [queues]
    assert sorted(client.connections) == ["a:10911", "ns:9876"]
    assert client.connections["a:10911"].answers
    assert client.client_id == hub.client_id
    assert client.name_servers == ["ns:9876"]
    client.set_name_servers("x:1")
    assert client.name_servers == ["x:1"]
    client.unsubscribe("T")
    hub.passes(1)
    assert client.queues == []


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_queues_are_paused_by_their_names_with_a_namespace_or_without(namespace: str) -> None:
    whole = "ns%T" if namespace else "T"
    client = Client(MemoryHub(namespace=namespace), whole)
    client.pause(MessageQueue("a", 0, "T"))
    assert [each.is_paused for each in client.queues] == [True, False]
    client.resume(MessageQueue("a", 0, whole))
    assert not any(each.is_paused for each in client.queues)
    client.pause()
    client.resume()
    assert not any(each.is_paused for each in client.queues)
