"""What each request needs, and its check: signatures, permissions, rules that change."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.acl import check, needs
from penstock.rocketmq.broker.acl.check import Acl
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.acl.rules import Permission
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.message_store import MessageStore
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.signing import signature
from penstock.rocketmq.remoting import Connection
from penstock.testing.disk import FaultyDisk
from tests.unit.rocketmq.broker.filling import store, until

NOWHERE = cast(MessageStore, None)
"""A stand-in for requests that name no message by its position."""

PATH = "/conf/plain_acl.yml"
RULES = b"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress: 192.168.7.7
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      - groupA=DENY
  - accessKey: rocketmq2
    secretKey: 12345678
    admin: true
"""


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk("/")
    disk.make_directory("/conf")
    disk.replace_file(PATH, RULES)
    return disk


@pytest.fixture
def acl(disk: FaultyDisk) -> Acl:
    return Acl(AclFiles(disk, "/conf", SYSTEM_CLOCK))


def sign(request: Command, access_key: str, secret_key: str = "12345678") -> Command:
    request.ext = {**(request.ext or {}), "AccessKey": access_key}
    request.ext["Signature"] = signature(request, secret_key).decode()
    return request


def denial(acl: Acl, request: Command, address: str = "1.2.3.4:5") -> str | None:
    """Why a request is refused; None when it is not."""
    try:
        acl.check(NOWHERE, cast(Connection, SimpleNamespace(address=address)), request)
    except RefusedError as error:
        return str(error) if error.code is ResponseCode.NO_PERMISSION else f"code {error.code}"
    return None


def test_the_mark_of_a_search_may_be_signed_or_not(acl: Acl) -> None:
    request = sign(Command(Code.QUERY_MESSAGE, ext={"topic": "topicC", "key": "k"}), "RocketMQ")
    assert request.ext is not None
    request.ext["_UNIQUE_KEY_QUERY"] = "true"  # the signature is from before
    assert denial(acl, request) is None
    assert denial(acl, sign(request, "RocketMQ")) is None
    assert denial(acl, sign(request, "RocketMQ", "87654321")) is not None


def test_rules_of_addresses_need_no_key(acl: Acl) -> None:
    request = Command(Code.UPDATE_BROKER_CONFIG)
    assert denial(acl, request, "10.10.103.5:77") is None
    assert denial(acl, request, "10.10.104.5:77") == "No accessKey is configured"
    named = Command(Code.UPDATE_BROKER_CONFIG, ext={"AccessKey": "RocketMQ"})
    assert denial(acl, named, "192.168.7.7:1") is None
    assert denial(acl, named, "192.168.7.8:1") == "Check signature failed for accessKey=RocketMQ"
    assert denial(acl, named, "[::1]:1") == "Check signature failed for accessKey=RocketMQ"


def test_unknown_keys_and_wrong_signatures_are_refused(acl: Acl) -> None:
    request = Command(Code.SEND_MESSAGE, ext={"topic": "topicB"}, body=b"x")
    assert denial(acl, sign(request, "nobody")) == "No acl config for nobody"
    failed = "Check signature failed for accessKey=RocketMQ"
    assert denial(acl, sign(request, "RocketMQ", "87654321")) == failed
    assert denial(acl, sign(request, "RocketMQ")) is None
    signed = dict(request.ext or {})
    for body, changes in ((b"y", {}), (b"x", {"topic": "topicC"}), (b"x", {"Signature": "\u1234"})):
        request.body, request.ext = body, {**signed, **changes}
        assert denial(acl, request) == failed


DECISIONS: list[tuple[int, dict[str, str], str | None]] = [
    (Code.SEND_MESSAGE, {"topic": "topicA"}, "No default permission for topic:topicA"),
    (Code.SEND_MESSAGE, {"topic": "topicB"}, None),
    (Code.SEND_MESSAGE_V2, {"b": "topicC"}, "No default permission for topic:topicC"),
    (Code.SEND_MESSAGE, {"topic": "other"}, "No default permission for topic:other"),
    (Code.SEND_MESSAGE, {"topic": "%RETRY%groupA"}, "No default permission for group:groupA"),
    (Code.SEND_MESSAGE, {"topic": "RMQ_SYS_TRACE_TOPIC"}, None),
    (Code.PULL_MESSAGE, {"topic": "topicC", "consumerGroup": "g"}, None),
    (Code.PULL_MESSAGE, {"topic": "topicC", "consumerGroup": "groupA"},
     "No default permission for group:groupA"),
    (Code.PULL_MESSAGE, {"topic": "topicA", "consumerGroup": "g"},
     "No default permission for topic:topicA"),
    (Code.UPDATE_AND_CREATE_TOPIC, {"topic": "topicB"},
     "Need admin permission for request code=17, but accessKey=RocketMQ is not"),
    (Code.GET_BROKER_CLUSTER_ACL_INFO, {},
     "Need admin permission for request code=52, but accessKey=RocketMQ is not"),
    (9999, {}, "Need admin permission for request code=9999, but accessKey=RocketMQ is not"),
    (Code.GET_MAX_OFFSET, {"topic": "topicC"}, None),
    (Code.GET_MAX_OFFSET, {"topic": "topicA"}, "No default permission for topic:topicA"),
    (Code.GET_BROKER_RUNTIME_INFO, {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("code", "ext", "wanted"), DECISIONS)
def test_permissions(acl: Acl, code: int, ext: dict[str, str], wanted: str | None) -> None:
    assert denial(acl, sign(Command(code, ext=dict(ext)), "RocketMQ")) == wanted
    assert denial(acl, sign(Command(code, ext=dict(ext)), "rocketmq2")) is None


def test_changed_files_count_and_damaged_ones_do_not(
    acl: Acl, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    request = sign(Command(Code.SEND_MESSAGE, ext={"topic": "topicA"}), "RocketMQ")
    acl.reload()
    assert caplog.text == ""
    disk.replace_file(PATH, RULES.replace(b"topicA=DENY", b"topicA=PUB"))
    assert denial(acl, request) is not None
    acl.reload()
    assert denial(acl, request) is None
    assert "access rules: 2 accounts, 1 patterns of trusted addresses" in caplog.text
    for damaged in (b"accounts: [", b"accounts: 7", RULES.replace(b"12345678", b"1", 1), None):
        caplog.clear()
        disk.remove(PATH) if damaged is None else disk.replace_file(PATH, damaged)
        acl.reload()
        acl.reload()
        told = "there is no /conf/plain_acl.yml" if damaged is None else "stay as they were"
        assert caplog.text.count(told) == 1
        assert denial(acl, request) is None


async def test_files_are_watched(
    acl: Acl, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "WATCH_S", 0.001)
    watched: Any = Acl(acl.files)
    watched.start()
    disk.replace_file(PATH, b"accounts: []")
    await until(lambda: not watched.rules.accounts)
    await watched.close()


@pytest.mark.parametrize(
    ("address", "access_key", "topic", "may"),
    [
        ("1.2.3.4:5", "RocketMQ", "topicB", True),
        ("1.2.3.4:5", "RocketMQ", "topicC", False),
        ("1.2.3.4:5", "nobody", "topicB", False),
        ("1.2.3.4:5", "", "topicB", False),
        ("1.2.3.4:5", "rocketmq2", "topicC", True),
        ("10.10.103.5:77", "", "topicC", True),
        ("192.168.7.7:1", "RocketMQ", "topicC", True),
    ],
)
def test_who_may_publish(acl: Acl, address: str, access_key: str, topic: str, may: bool) -> None:
    assert acl.may_publish(address, access_key, topic) == may


# --- what each request needs ----------------------------------------------------------------------


PUB, SUB = Permission.PUB, Permission.SUB
T, G, H = ("T", SUB), ("%RETRY%g", SUB), ("%RETRY%h", SUB)


def read(request: Command, store: MessageStore = NOWHERE) -> needs.Needs:
    return needs.of(request.code).read(store, request)


def view(code: Code, services: Services, offset: int, **ext: str) -> needs.Needs:
    """What a request needs that names a message by its place."""
    request = Command(code, ext={"offset": str(offset), "commitLogOffset": str(offset), **ext})
    return read(request, services.store)


def test_every_code_that_is_answered_has_a_rule(services: Services) -> None:
    """Without a rule, a new answerer would be for administrators by default and not by decision."""
    assert needs.RULES.keys() == services.answers.codes


def test_codes_without_a_rule_are_for_administrators() -> None:
    for code in (Code.QUERY_BROKER_OFFSET, Code.CHECK_TRANSACTION_STATE, 9999, -1):
        assert needs.of(code).is_admins


NEEDS: list[tuple[Code, dict[str, str], list[tuple[str, Permission]]]] = [
    (Code.SEND_MESSAGE, {"topic": "T", "producerGroup": "p"}, [("T", PUB)]),
    (Code.SEND_MESSAGE_V2, {"b": "T", "a": "p"}, [("T", PUB)]),
    (Code.SEND_BATCH_MESSAGE, {"b": "T"}, [("T", PUB)]),
    (Code.SEND_REPLY_MESSAGE, {"topic": "T"}, [("T", PUB)]),
    (Code.SEND_REPLY_MESSAGE_V2, {"b": "T"}, [("T", PUB)]),
    (Code.SEND_MESSAGE, {"topic": "%RETRY%g"}, [G]),
    (Code.SEND_MESSAGE_V2, {"b": "%RETRY%g", "a": "CLIENT_INNER_PRODUCER"}, [G]),
    (Code.SEND_MESSAGE, {}, []),
    (Code.PULL_MESSAGE, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.PULL_MESSAGE, {"topic": "%RETRY%g", "consumerGroup": "g"}, [G, G]),
    (Code.LITE_PULL_MESSAGE, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.POP_MESSAGE, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.UPDATE_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.QUERY_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.QUERY_MESSAGE, {"topic": "T", "key": "k"}, [T]),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "g"}, [G]),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "producerGroup": "p", "consumerGroup": ""}, []),
    (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, [G]),
    (Code.CHANGE_MESSAGE_INVISIBLETIME, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.POLLING_INFO, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.GET_MAX_OFFSET, {"topic": "T"}, [("T", PUB | SUB)]),
    (Code.GET_TOPIC_STATS_INFO, {"topic": "%RETRY%g"}, [("%RETRY%g", PUB | SUB)]),
    (Code.GET_CONSUME_STATS, {"consumerGroup": "g"}, [G]),
    (Code.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "T"}, [T, G]),
    (Code.QUERY_CONSUME_QUEUE, {"topic": "T"}, [T]),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "T", "group": "g"}, [T, G]),
    (Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h"}, [G, H]),
    (Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "T"}, [T, G, H]),
    (Code.GET_BROKER_RUNTIME_INFO, {}, []),
]


@pytest.mark.parametrize(("code", "ext", "wanted"), NEEDS)
def test_needs_by_fields(code: Code, ext: dict[str, str], wanted: list[Any]) -> None:
    assert read(Command(code, ext=ext)) == wanted


SUBSCRIPTIONS = [{"topic": topic, "subString": "*"} for topic in ("T", "%RETRY%g")]
BEAT = {"clientID": "c", "producerDataSet": [{"groupName": "p"}],
        "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": SUBSCRIPTIONS}]}  # fmt: skip
ENTRY = {"t": "T", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": "AQ=="}
LOCKED = {"consumerGroup": "g", "clientId": "c", "mqSet": []}
OF_BOTH = {"topic": "T", "consumerGroup": "g", "mode": "POP"}
BY_BODY: list[tuple[Code, Any, list[tuple[str, Permission]] | None]] = [
    (Code.HEART_BEAT, BEAT, [G, T, G]),
    (Code.HEART_BEAT, [1], None),
    (Code.BATCH_ACK_MESSAGE, {"acks": [{**ENTRY, "c": "g"}, {**ENTRY, "c": "h"}]}, [T, G, H]),
    (Code.BATCH_ACK_MESSAGE, {"acks": 5}, None),
    (Code.LOCK_BATCH_MQ, LOCKED, [G]),
    (Code.LOCK_BATCH_MQ, {}, None),
    (Code.UNLOCK_BATCH_MQ, LOCKED, [G]),
    (Code.UNLOCK_BATCH_MQ, {}, None),
    (Code.QUERY_ASSIGNMENT, OF_BOTH, [T, G]),
    (Code.QUERY_ASSIGNMENT, [], []),
    (Code.SET_MESSAGE_REQUEST_MODE, OF_BOTH, [T, G]),
    (Code.SET_MESSAGE_REQUEST_MODE, [], []),
]


@pytest.mark.parametrize(("code", "body", "wanted"), BY_BODY)
def test_needs_by_body(code: Code, body: Any, wanted: list[Any] | None) -> None:
    """What makes no sense is an error of its sender."""
    request = Command(code, body=fastjson.dumps(body))
    if wanted is not None:
        assert read(request) == wanted
        return
    with pytest.raises(BodyError):
        read(request)


async def test_a_message_named_by_its_place_needs_its_topic(services: Services) -> None:
    (placed,) = await store(services, "T", 0, b"x", REAL_TOPIC="public")
    offset = placed.physical_offset
    assert view(Code.VIEW_MESSAGE_BY_ID, services, offset) == [T], "its producer lends it no other"
    back = view(Code.CONSUMER_SEND_MSG_BACK, services, offset, group="g", originTopic="other")
    assert back == [G, T]
    direct = {"msgId": placed.message_id, "consumerGroup": "g", "topic": "other"}
    assert view(Code.CONSUME_MESSAGE_DIRECTLY, services, offset, **direct) == [G, T]
    assert view(Code.VIEW_MESSAGE_BY_ID, services, -1) == []
    ended = view(Code.END_TRANSACTION, services, offset, topic="mine")
    assert ended == []  # its answerer finds no half there


@pytest.mark.parametrize("topic", sorted(names.NOT_FOR_CLIENTS))
async def test_a_message_that_waits_needs_the_topic_that_it_is_for(
    services: Services, topic: str
) -> None:
    (placed, _) = await store(services, topic, 0, b"x", b"y", REAL_TOPIC="T", REAL_QID="0")
    assert view(Code.VIEW_MESSAGE_BY_ID, services, placed.physical_offset) == [T]
    if topic == names.HALF_TOPIC:
        ended = view(Code.END_TRANSACTION, services, placed.physical_offset)
        assert ended == [("T", PUB)]
    (lost,) = await store(services, topic, 0, b"x")
    assert view(Code.VIEW_MESSAGE_BY_ID, services, lost.physical_offset) == [(topic, SUB)]


def test_what_administrators_only_may_do() -> None:
    codes = {int(code) for code, rule in needs.RULES.items() if rule.is_admins}
    assert codes >= {17, 18, 215, 25, 200, 225, 207, 50, 51, 52, 53, 26, 306, 316, 329}
    assert not codes & {10, 11, 28, 33, 34, 36, 37, 310, 320, 200_050}
