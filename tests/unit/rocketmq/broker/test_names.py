"""Names and attributes of topics and groups, permissions, and the table of answerers."""

from __future__ import annotations

import os

import pytest

from penstock.rocketmq.broker import attributes, names, permissions
from penstock.rocketmq.broker.answering import AnswerTable, answers
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.topic_table import READ, WRITE
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.log import DOOMED
from penstock.storage.store import queue_directory
from tests.unit.rocketmq.broker.peers import refused


@pytest.mark.parametrize(
    ("topic", "says"),
    [*((topic, None) for topic in ("T", "a-b_C|9", "%RETRY%g", "t" * 127, "%DLQ%" + "g" * 240)),
     ("", "blank"), (" ", "blank"), ("a b", "illegal"), ("T\n", "illegal"), ("ä", "illegal"),
     ("t" * 128, "longer than topic max length 127"), ("%RETRY%" + "g" * 239, "245")],
)  # fmt: skip
def test_names_of_topics(topic: str, says: str | None) -> None:
    problem = names.topic_problem(topic)
    assert problem is None if says is None else says in (problem or "")


@pytest.mark.parametrize(
    ("group", "is_legal"), [("CG-1", True), ("", False), ("a b", False), ("g" * 239, False)]
)
def test_names_of_groups(group: str, is_legal: bool) -> None:
    assert (names.group_problem(group) is None) is is_legal


def test_the_longest_names_have_a_folder_until_they_are_deleted() -> None:
    group = "g" * 238
    assert names.group_problem(group) is None
    assert names.topic_problem(names.retry_topic(group)) is None
    folder = os.path.basename(queue_directory(names.retry_topic(group), 0)) + DOOMED
    assert len(folder) == 255
    inner = (names.retry_topic("g"), names.dead_letter_topic("g"))
    assert inner == ("%RETRY%g", "%DLQ%g")
    assert [names.is_inner(name) for name in (*inner, "g")] == [True, True, False]


# --- permissions ----------------------------------------------------------------------------------


def test_a_topic_is_known_or_refused(services: Services) -> None:
    config = TopicConfig("T", 1, 1)
    services.topics.put(config, 1)
    assert permissions.known_topic(services.topics, "T") is config
    with refused(17, r"topic\[U\] not exist"):
        permissions.known_topic(services.topics, "U")


@pytest.mark.parametrize(("permission", "word"), [(READ, "pulling"), (WRITE, "sending")])
def test_each_permission_is_looked_at_alone(services: Services, permission: int, word: str) -> None:
    config = TopicConfig("T", 1, 1, permission)
    services.settings.broker_permission = permission
    permissions.need_broker(services.settings, permission)
    permissions.need_topic(config, permission)
    config.perm = services.settings.broker_permission = READ + WRITE - permission
    with refused(16, rf"the topic\[T\] {word} message"):
        permissions.need_topic(config, permission)
    with refused(16, rf"the broker\[127.0.0.1\] {word} message"):
        permissions.need_broker(services.settings, permission)


# --- attributes -----------------------------------------------------------------------------------


FIFO = {"+message.type": "FIFO"}


def test_attributes_as_javas_tool_writes_them() -> None:
    assert attributes.parsed("") == {}
    assert attributes.parsed("+message.type=FIFO,-reserve.time,+queue.type=SimpleCQ") == {
        "+message.type": "FIFO", "-reserve.time": "", "+queue.type": "SimpleCQ",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
     ("-message.type=FIFO", "add/alter attribute format is wrong: -message.type"),
     ("message.type", "delete attribute format is wrong: message.type"),
     ("+a=1,+a=2", "key duplication: \\+a")],
)  # fmt: skip
def test_texts_that_are_no_attributes(text: str, words: str) -> None:
    with pytest.raises(BodyError, match=words):
        attributes.parsed(text)


def test_a_topic_gets_and_loses_attributes() -> None:
    made = attributes.of_topic(None, FIFO)
    assert made == {"message.type": "FIFO"}
    more = attributes.of_topic(made, {"+reserve.time": "-1", "+message.type": "DELAY"})
    assert more == {"message.type": "DELAY", "reserve.time": "-1"}
    assert made == {"message.type": "FIFO"}, "a copy"
    assert attributes.of_topic(more, {"-message.type": ""}) == {"reserve.time": "-1"}
    assert attributes.of_topic(more, {}) == more
    assert attributes.of_topic(more, more) == more, "what was read may be put back"
    with refused(ResponseCode.INVALID_PARAMETER, "MIXED message type"):
        attributes.of_topic({}, {"+message.type": "MIXED"})


@pytest.mark.parametrize(
    ("current", "wanted", "words"),
    [
        (None, {"+color": "red"}, "unsupported key: color"),
        (None, {"+message.type": "ODD"}, "message.type is ODD: value is not in set: UNSPEC"),
        (None, {"+reserve.time": "-2"}, "not in range"),
        (None, {"+reserve.time": "x"}, "not in range"),
        (None, {"+reserve.time": str(1 << 63)}, "not in range"),
        (None, {"+cleanup.policy": "COMPACTION"}, "not in set: DELETE"),
        (None, {"+queue.type": "BatchCQ"}, "not in set: SimpleCQ"),
        (None, {"-message.type": ""}, "only add attribute is supported while creating topic"),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
        ({}, {"+queue.type": "SimpleCQ"}, "attempt to update an unchangeable attribute"),
        ({}, {"message.type": "FIFO"}, "wrong format key: message.type"),
        ({"a": "1"}, {"+a": "2", "-a": ""}, "alter duplication key. key: a"),
        ({}, {"+": "1"}, "kv string format wrong"),
        ({}, {"+a-b": "1"}, "kv string format wrong"),
    ],
)
def test_what_no_topic_can_have(
    current: dict[str, str] | None, wanted: dict[str, str], words: str
) -> None:
    change = attributes.altered if "a" in (current or {}) else attributes.of_topic
    with pytest.raises(BodyError, match=words):
        change(current, wanted)


# --- the table of answerers -----------------------------------------------------------------------


class Pulls:
    @answers(RequestCode.PULL_MESSAGE)
    async def pull(self, connection: object, request: Command) -> None: ...

    def check(self) -> None: ...


class Sends:
    @answers(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    def send(self, connection: object, request: Command) -> None: ...


class OtherSends:
    @answers(RequestCode.SEND_MESSAGE)
    async def send(self, connection: object, request: Command) -> None: ...


def test_methods_and_coroutine_methods_have_tables_of_their_own() -> None:
    sends, pulls = Sends(), Pulls()
    table = AnswerTable((sends, pulls))
    assert table.at_once == {10: sends.send, 310: sends.send}
    assert table.at_once[10] is table.at_once[310]
    assert table.later == {11: pulls.pull}
    assert table.codes == {10, 310, 11}
    with pytest.raises(AssertionError):  # a code has one answerer
        AnswerTable((Sends(), OtherSends()))
