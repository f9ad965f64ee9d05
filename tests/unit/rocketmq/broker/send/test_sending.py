"""Sends without a network: headers, topics, slow disks, retries, what comes back, replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.publish.batching import Outcome
from penstock.broker.publish.records import Records
from penstock.broker.topic import Topic
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import (
    DiskFullError,
    LateCopyError,
    NotCopiedError,
    StorageError,
    TooManyFilesError,
)
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays.timers import DELAY_MS_MAX
from penstock.rocketmq.broker.send import sending as sending_module
from penstock.rocketmq.broker.send.flush_timeouts import FlushTimeouts, Sending
from penstock.rocketmq.broker.send.send_header import SendHeader
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.broker.state.retry_policy import RetryPolicy
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import stored
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    Told,
    ask_later,
    hand_over,
    heartbeat,
    refused,
    request,
)

LONG_NAMES = {
    "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "2", "sysFlag": "1", "bornTimestamp": "1700000000000", "flag": "7",
    "properties": "KEYS\x01k\x02", "reconsumeTimes": "3", "unitMode": "true",
    "maxReconsumeTimes": "5", "batch": "TRUE",
}  # fmt: skip
SHORT_NAMES = dict(zip("abcdefghijklm", LONG_NAMES.values(), strict=True))
ALL = SendHeader(
    "PG", "T", "TBW102", 4, 2, 1, 1700000000000, 7, "KEYS\x01k\x02", 3, 5, True, True
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "ext"),
    [(10, LONG_NAMES), (324, LONG_NAMES), (310, SHORT_NAMES), (320, SHORT_NAMES),
     (325, SHORT_NAMES)],
)  # fmt: skip
def test_long_and_short_names_say_the_same(code: int, ext: dict[str, str]) -> None:
    assert SendHeader.of(Command(code, ext=ext)) == ALL
    bare = SendHeader.of(Command(310, ext={"b": "T", "m": "1", "k": ""}))
    javas_defaults = SendHeader("", "T", "", 0, 0, 0, 0, 0, "", 0, None, False, False)
    assert bare == javas_defaults


@pytest.mark.parametrize("ext", [{"e": "x"}, {"d": "1.5"}, {"l": "many"}, {"g": "0x1"}, None])
def test_what_is_no_number_is_refused(ext: dict[str, str] | None) -> None:
    with pytest.raises(BodyError):
        SendHeader.of(Command(310, ext=ext))


@pytest.mark.parametrize(("name", "value"), [("e", 1 << 31), ("f", 1 << 31), ("h", -(1 << 31) - 1),
                                             ("j", 1 << 40), ("g", 1 << 63)])  # fmt: skip
def test_numbers_have_the_room_that_a_stored_message_gives(name: str, value: int) -> None:
    header = SendHeader.of(Command(310, ext={"b": "T", name: str(value)}))
    with pytest.raises(BodyError, match="bits"):
        header.check()


# --- topics, places and errors --------------------------------------------------------------------


def sent(topic: str, text: str = "", **fields: Any) -> Command:
    """A request to send a message."""
    short = {"a": "P", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0,
             "i": text, "j": 0, **fields}  # fmt: skip
    return request(Code.SEND_MESSAGE_V2, b"x", **short)


@pytest.mark.parametrize("full", ["of topics", "disk"])
def test_a_topic_that_there_is_no_room_for_is_not_made(
    services: Services, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """Each send could name another one."""

    def save(_name: str) -> None:
        raise DiskFullError("no space left on device")

    services.topics.set_template(8, 1, inherited=True)
    if full == "disk":
        monkeypatch.setattr(services.files, "save", save)
    else:
        monkeypatch.setattr(services.node.registry, "_topics_max", 0)
    with pytest.raises(DiskFullError if full == "disk" else TooManyFilesError):
        hand_over(services, FakePeer().connection, sent("New"))
    assert "New" not in services.topics.configs
    assert "New" not in services.node.broker.topics
    path = f"{services.settings.store_path_root_dir}/config/topics.json"
    assert b"New" not in (services.files.disk.read_file(path) or b"")


class Waiting:
    """Commits nothing before it is told to, and then answers nobody yet."""

    def __init__(self) -> None:
        self._topic: Topic | None = None

    def publish(
        self, topic: Topic, records: Records, delay_ns: int, done: Outcome, queue: int | None = None
    ) -> None:
        topic.stage(records, delay_ns, done, queue)
        self._topic = topic

    def commit(self) -> None:
        assert self._topic is not None
        self._topic.commit()


def test_a_send_without_a_place_is_not_told_that_it_is_stored(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a large commit is written, which publishes to the topic wait for."""
    waiting, peer = Waiting(), FakePeer()
    watched: list[Sending] = []
    services.topics.put(TopicConfig("T", 1, 1), 1)
    monkeypatch.setattr(services.store, "_commits", waiting)
    monkeypatch.setattr(services.sends, "flush_timeouts", SimpleNamespace(watch=watched.append))
    assert hand_over(services, peer.connection, sent("T")) is None
    (sending,) = watched
    sending.flush_timed_out()
    assert peer.sent == []
    waiting.commit()
    sending.flush_timed_out()
    (answer,) = peer.sent
    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    place = OffsetId.parse(answer.text("msgId")).offset
    assert services.store.message(place) is not None


@pytest.mark.parametrize(("tries", "topic"), [(1, "SCHEDULE_TOPIC_XXXX"), (16, "%DLQ%G")])
async def test_a_retry_of_what_was_in_a_transaction_is_no_half(
    services: Services, tries: int, topic: str
) -> None:
    """As Java's clients before 4.6.1 send it when they cannot send it back, or consume in order."""
    found = {"TRAN_MSG": "true", "PGROUP": "P", "RETRY_TOPIC": "T", "DELAY": "3"}
    retry = sent("%RETRY%G", properties.join(found), f=4, j=tries, l=16)
    hand_over(services, FakePeer().connection, retry)
    assert services.store.bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0) == (0, 0)
    (message,) = stored(services, topic, 2 if topic.startswith("SCHEDULE") else 0)
    assert (message.body, message.sys_flag) == (b"x", 0)


@pytest.mark.parametrize(
    ("error", "code", "is_stored"),
    [
        (NotCopiedError("0 of 1 copies follow"), ResponseCode.SERVICE_NOT_AVAILABLE, False),
        (LateCopyError("not copied within 5 s"), ResponseCode.FLUSH_SLAVE_TIMEOUT, True),
        (DiskFullError("full"), ResponseCode.SERVICE_NOT_AVAILABLE, False),
        (StorageError("failed"), ResponseCode.SYSTEM_ERROR, False),
    ],
)
def test_the_code_of_an_error(error: StorageError, code: ResponseCode, is_stored: bool) -> None:
    assert sending_module.error_code(error) is code
    assert (code in sending_module.STORED) is is_stored


# --- slow disks -----------------------------------------------------------------------------------


class Slow:
    def __init__(self) -> None:
        self.is_answered = False
        self.timed_out = asyncio.Event()

    def flush_timed_out(self) -> None:
        self.is_answered = True
        self.timed_out.set()


async def test_only_what_waits_too_long_is_answered() -> None:
    timeouts = FlushTimeouts(SYSTEM_CLOCK, 20)
    quick, slow, later = Slow(), Slow(), Slow()
    for each in (quick, slow):
        timeouts.watch(each)
    quick.is_answered = True
    async with asyncio.timeout(30):
        await slow.timed_out.wait()
        timeouts.watch(later)
        await later.timed_out.wait()
    assert not quick.timed_out.is_set()


async def test_what_was_answered_is_let_go() -> None:
    timeouts = FlushTimeouts(SYSTEM_CLOCK, 60_000)
    for _ in range(1000):
        each = Slow()
        timeouts.watch(each)
        each.is_answered = True
    assert len(timeouts._waiting) <= 2
    assert timeouts._timer is not None
    timeouts._timer.cancel()


# --- retries and dead letters ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reconsumed", "most", "version", "topic"),
    [(15, None, 409, "%RETRY%G"), (16, None, 409, "%DLQ%G"), (2, 3, 409, "%RETRY%G"),
     (3, 3, 409, "%DLQ%G"), (3, 3, 63, "%RETRY%G"), (16, 20, 409, "%RETRY%G")],
)  # fmt: skip
def test_sends_to_a_retry_topic(
    services: Services, reconsumed: int, most: int | None, version: int, topic: str
) -> None:
    draft = Draft("%RETRY%G", 3, b"x", "DELAY\x015\x02", reconsume_times=reconsumed)
    ruled = services.retries.dead_letter_rule(draft, most, version)
    assert (ruled.topic, ruled.reconsume_times) == (topic, reconsumed)
    delay = properties.value_of(ruled.properties, "DELAY")
    assert (ruled.queue, delay) == ((0, None) if topic == "%DLQ%G" else (3, "5"))


def test_sends_to_the_retry_topic_of_no_group(services: Services) -> None:
    services.settings.auto_create_subscription_group = False
    with refused(26):
        services.retries.dead_letter_rule(Draft("%RETRY%none", 0, b"x"), None, 409)


# --- messages that come back ----------------------------------------------------------------------


@pytest.fixture
def levels(services: Services) -> Services:
    """With the topic where messages wait, a queue for each level."""
    services.topics.put(TopicConfig(names.SCHEDULE_TOPIC, 18, 18), services.now_ms)
    return services


async def failed(services: Services, **fields: Any) -> Placed:
    """A message that a consumer could not deal with."""
    draft = Draft("T", 0, b"body", **{"properties": "TAGS\x01A\x02", "born_ms": 5, **fields})
    return await services.publisher.publish_one(draft)


async def send_back(
    services: Services, placed: Placed | int, level: int = 0, **fields: Any
) -> Command:
    offset = placed if isinstance(placed, int) else placed.physical_offset
    fields = {"offset": offset, "group": "G", "delayLevel": level, **fields}
    return await ask_later(services, Code.CONSUMER_SEND_MSG_BACK, **fields)


def newest(services: Services, topic: str, queue: int = 0) -> StoredMessage:
    return stored(services, topic, queue)[-1]


def found_in(message: StoredMessage) -> dict[str, str]:
    return properties.parse(message.properties)


async def test_a_retry_waits_in_a_level_and_knows_where_it_comes_from(levels: Services) -> None:
    placed = await failed(levels, flag=9)
    answer = await send_back(levels, placed)
    assert (answer.code, answer.ext, answer.body) == (0, None, b"")
    message = newest(levels, names.SCHEDULE_TOPIC, 2)
    assert (message.body, message.flag, message.born_ms, message.reconsume_times) == (
        b"body", 9, 5, 1,
    )  # fmt: skip
    assert found_in(message) == {
        "TAGS": "A", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": placed.message_id, "WAIT": "false",
        "DELAY": "3", "REAL_TOPIC": "%RETRY%G", "REAL_QID": "0",
    }  # fmt: skip
    await send_back(levels, placed, version=120, maxReconsumeTimes=0)
    assert levels.store.bounds("%DLQ%G", 0) == (0, 0), "old clients cannot set how often"
    assert len(stored(levels, names.SCHEDULE_TOPIC, 2)) == 2


async def test_each_retry_waits_longer_and_the_origin_stays(levels: Services) -> None:
    first = {"RETRY_TOPIC": "First", "ORIGIN_MESSAGE_ID": "0" * 32}
    text = properties.join({**first, "DELAY": "4"})
    placed = await failed(levels, properties=text, reconsume_times=2)
    for level, queue in ((0, 4), (1, 0), ((1 << 31) - 1, 17)):  # the last: as long as it can be
        await send_back(levels, placed, level)
        message = newest(levels, names.SCHEDULE_TOPIC, queue)
        assert message.reconsume_times == 3
        assert found_in(message).items() >= first.items()


async def test_a_group_s_own_delays(levels: Services) -> None:
    """Also the second time, when the message has waited for a time before."""
    levels.topics.put(TopicConfig(names.TIMER_TOPIC, 1, 1), levels.now_ms)
    policy = RetryPolicy("EXPONENTIAL", (1500, 10 * DELAY_MS_MAX, 100_000_000))
    levels.groups.put(GroupConfig("G", group_retry_policy=policy), levels.now_ms)
    placed = await failed(levels, properties="TIMER_DELAY_MS\x019\x02TIMER_OUT_MS\x015\x02")
    await send_back(levels, placed)
    found = found_in(newest(levels, names.TIMER_TOPIC))
    assert (found["TIMER_DELAY_MS"], found["REAL_TOPIC"]) == ("1500", "%RETRY%G")
    assert found["TIMER_OUT_MS"] == str(levels.now_ms + 1500)
    again = await failed(levels, reconsume_times=1)
    await send_back(levels, again)
    found = found_in(newest(levels, names.TIMER_TOPIC))
    assert found["TIMER_DELAY_MS"] == str(DELAY_MS_MAX), "no more than a message may wait"
    await send_back(levels, again, level=1)
    assert newest(levels, names.SCHEDULE_TOPIC, 0).reconsume_times == 2, "the client's word"


@pytest.mark.parametrize(
    ("reconsumed", "level", "fields", "of_group"),
    [(16, 0, {}, 16), (0, -1, {}, 16), (0, 0, {"maxReconsumeTimes": 0}, 16),
     (3, 5, {"maxReconsumeTimes": 3}, 16), (1, 0, {}, 1)],
)  # fmt: skip
async def test_dead_letters(
    levels: Services, reconsumed: int, level: int, fields: dict[str, int], of_group: int
) -> None:
    levels.groups.put(GroupConfig("G", retry_max_times=of_group), levels.now_ms)
    placed = await failed(levels, reconsume_times=reconsumed)
    assert (await send_back(levels, placed, level, **fields)).code == 0
    message = newest(levels, "%DLQ%G")
    assert message.reconsume_times == reconsumed + 1
    found = found_in(message)
    assert (found["RETRY_TOPIC"], found["ORIGIN_MESSAGE_ID"]) == ("T", placed.message_id)
    assert "DELAY" not in found
    assert levels.stats.view("DLQ_PUT_NUMS", "T@G") is not None


async def test_a_group_without_retry_queues_wants_none(levels: Services) -> None:
    levels.groups.put(GroupConfig("G", retry_queue_nums=0), levels.now_ms)
    assert (await send_back(levels, 0)).code == 0
    assert levels.topics.get("%RETRY%G") is None


async def test_retries_are_spread_over_the_retry_queues(levels: Services) -> None:
    levels.groups.put(GroupConfig("G", retry_queue_nums=2), levels.now_ms)
    for _ in range(2):
        await send_back(levels, await failed(levels))
    retries = stored(levels, names.SCHEDULE_TOPIC, 2)
    assert {found_in(message)["REAL_QID"] for message in retries} == {"0", "1"}


@pytest.mark.parametrize("level", [0, -1])
async def test_properties_without_room(levels: Services, level: int) -> None:
    placed = await failed(levels, properties=properties.join({"k": "v" * 32_750}))
    with refused(13, "leave no room"):
        await send_back(levels, placed, level)


async def test_what_cannot_be_sent_back(levels: Services) -> None:
    placed = await failed(levels)
    for offset in (99_999_999, -1, placed.physical_offset + 1):
        with pytest.raises(RefusedError, match=f"look message by offset failed, {offset}"):
            await send_back(levels, offset)
    levels.topics.configs["%RETRY%G"].perm = 4
    with pytest.raises(RefusedError, match=r"topic\[%RETRY%G\] sending message is forbidden"):
        await send_back(levels, placed)
    levels.settings.broker_permission = 4
    with refused(16, "sending message is forbidden"):
        await send_back(levels, placed)
    levels.settings.auto_create_subscription_group = False
    levels.groups.delete("G", 0)
    with refused(26, "subscription group not exist, G"):
        await send_back(levels, placed)


# --- replies on their way to the producer that asked ----------------------------------------------


REPLY = properties.join({"MSG_TYPE": "reply", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "asker"})


async def reply(services: Services, body: bytes = b"answer", **fields: Any) -> Command:
    topic = f"{services.settings.broker_cluster_name}_REPLY_TOPIC"
    services.topics.make_inner(topic, 1, 0)
    short = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0,
             "i": REPLY, "j": 0, "k": "false", "m": "false", **fields}  # fmt: skip
    return await ask_later(services, Code.SEND_REPLY_MESSAGE_V2, body, **short)


def asker(services: Services, reply: Callable[[Told], Command] | None = None) -> FakePeer:
    """The producer that asked."""
    peer = FakePeer(reply)
    beat = request(Code.HEART_BEAT, heartbeat("asker", producers=("PG",)))
    hand_over(services, peer.connection, beat)
    return peer


async def test_the_producer_gets_it_and_it_is_stored(services: Services) -> None:
    peer = asker(services, lambda told: Command(0))
    answer = await reply(services)
    assert answer.code == 0
    (told,) = peer.told
    assert (told.code, told.body) == (326, b"answer")
    assert set(told.ext) == {
        "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
        "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "bornHost",
        "storeHost", "storeTimestamp",
    }  # fmt: skip
    assert (told.ext["bornHost"], told.ext["unitMode"]) == ("127.0.0.1:5000", "false")
    found = properties.parse(told.ext["properties"])
    assert found.pop("PUSH_REPLY_TIME") == str(services.now_ms)
    assert found == properties.parse(REPLY)
    (message,) = stored(services, told.ext["topic"])
    assert (message.body, message.properties) == (b"answer", REPLY)
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "queueId": "0",
                          "msgId": message.offset_id, "queueOffset": "0"}  # fmt: skip


async def test_without_storing_the_id_is_0(services: Services) -> None:
    services.settings.store_reply_message_enable = False
    peer = asker(services, lambda told: Command(0))
    answer = await reply(services, e=-1)
    (told,) = peer.told
    assert told.ext["queueId"] == "-1"
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "queueId": "0",
                          "msgId": "0", "queueOffset": "0"}  # fmt: skip
    assert stored(services, told.ext["topic"]) == []


async def test_replies_that_reach_nobody(services: Services) -> None:
    answer = await reply(services)
    assert answer.code == 1
    assert answer.remark == "push reply message fail, channel of <asker> not found."
    assert (answer.ext or {})["queueOffset"] == "0", "it is stored all the same"
    peer = asker(services, lambda told: Command(1))
    assert "fail: it answered 1" in ((await reply(services)).remark or "")
    services.heartbeats.connection_ended(peer.connection)
    asker(services)
    assert "fail: nobody there" in ((await reply(services)).remark or "")
    answer = await reply(services, i="")
    assert answer.code == 1
    assert answer.remark == "reply message properties[REPLY_TO_CLIENT] is null"
    services.settings.max_message_size = 5
    with refused(13, "too large"):
        await reply(services)
