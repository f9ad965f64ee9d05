"""The check of requests: signatures, permissions, and rules that change."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.broker.acl.check import Acl
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.signing import signature
from penstock.testing.disk import FaultyDisk

if TYPE_CHECKING:
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

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


STORE = cast("MessageStore", None)
"""A stand-in, as no request here names a message by its position."""


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
        acl.check(STORE, cast("Connection", SimpleNamespace(address=address)), request)
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
    request.body = b"y"
    assert denial(acl, request) == failed
    request.body = b"x"
    assert request.ext is not None
    request.ext["topic"] = "topicC"
    assert denial(acl, request) == failed
    request.ext["Signature"] = "\u1234"
    assert denial(acl, request) == failed


DECISIONS: list[tuple[int, dict[str, str], str | None]] = [
    (Code.SEND_MESSAGE, {"topic": "topicA"}, "No default permission for topic:topicA"),
    (Code.SEND_MESSAGE, {"topic": "topicB"}, None),
    (Code.SEND_MESSAGE_V2, {"b": "topicC"}, "No default permission for topic:topicC"),
    (Code.SEND_BATCH_MESSAGE, {"b": "topicC"}, "No default permission for topic:topicC"),
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
    for damaged in (b"accounts: [", b"accounts: 7", RULES.replace(b"12345678", b"1", 1)):
        caplog.clear()
        disk.replace_file(PATH, damaged)
        acl.reload()
        acl.reload()
        assert caplog.text.count("the access rules stay as they were") == 1
        assert denial(acl, request) is None
    caplog.clear()
    disk.remove(PATH)
    acl.reload()
    acl.reload()
    assert caplog.text.count("there is no /conf/plain_acl.yml") == 1
    assert denial(acl, request) is None


async def test_files_are_watched(
    acl: Acl, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from penstock.rocketmq.broker.acl import check as module

    monkeypatch.setattr(module, "WATCH_S", 0.001)
    watched: Any = Acl(acl.files)
    watched.start()
    disk.replace_file(PATH, b"accounts: []")
    async with asyncio.timeout(30):
        for _ in iter(lambda: not watched.rules.accounts, True):
            await asyncio.sleep(0.001)
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
