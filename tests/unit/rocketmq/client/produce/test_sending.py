"""Requests that send, and their answers."""

from __future__ import annotations

import random

import pytest

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadAnswer, BadMessage, MessageIllegal
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.produce.sending import SendStatus, draft, drafts_of, results
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body, properties

QUEUE = MessageQueue("a", 2, "T")
FIELDS = {"msgId": "7F00000100002A9F0000000000000005", "queueId": "2", "queueOffset": "9"}


def test_a_message_becomes_a_request() -> None:
    made = draft(Message("T", b"x", flag=5), "ID", Config(namespace="ns"))
    request = made.request("PG", QUEUE, 1234, Config())
    assert request.code == RequestCode.SEND_MESSAGE_V2
    assert request.ext is not None
    picked = {name: request.ext[name] for name in "abdefghkm"}
    assert picked == {"a": "PG", "b": "ns%T", "d": "4", "e": "2", "f": "0", "g": "1234", "h": "5",
                      "k": "false", "m": "false"}  # fmt: skip
    found = properties.parse(request.ext["i"])
    assert found == {"UNIQ_KEY": "ID", "WAIT": "true", "INSTANCE_ID": "ns"}


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_a_body_that_packing_makes_longer_is_sent_as_it_is(kind: str) -> None:
    """One as long as a broker allows would be refused else."""
    config, noise = Config(compress_type=kind), random.Random(7).randbytes(5000)
    made = draft(Message("T", noise), "ID", config)
    assert (made.body, made.sys_flag) == (noise, 0)
    packed = draft(Message("T", bytes(5000)), "ID", config)
    assert len(packed.body) < 5000
    assert packed.sys_flag & 1


def test_a_half_message_says_so() -> None:
    made = draft(Message("T", b"x"), "ID", Config(), TRAN_MSG="true", PGROUP="PG")
    assert made.sys_flag == 0x4


def test_batches_are_as_large_as_they_may_be() -> None:
    messages = [(Message("T", b"x" * 100), f"ID{n}") for n in range(10)]
    parts = drafts_of(messages, Config(max_message_size=500))
    assert [unique for part in parts for unique in part.ids] == [f"ID{n}" for n in range(10)]
    for part in parts:
        assert len(part.body) <= 500
        assert len(batch_body.decode(part.body)) == len(part.ids)
    assert len(parts) == 4
    (one,) = drafts_of([(Message("T", b"x" * 1000), "ID")], Config(max_message_size=500))
    assert one.code == RequestCode.SEND_BATCH_MESSAGE


@pytest.mark.parametrize(
    "messages",
    [[], [Message("T", b"x"), Message("U", b"x")], [Message("T", b"x", delay_level=1)],
     [Message("%RETRY%G", b"x")], [Message("T", b"x"), Message("T", b"x", wait_store=False)]],
)  # fmt: skip
def test_what_cannot_be_one_batch(messages: list[Message]) -> None:
    with pytest.raises(BadMessage):
        drafts_of([(each, "ID") for each in messages], Config())


@pytest.mark.parametrize(
    "message",
    [Message("T", b"x", keys="\udcff.txt"), Message("T", b"x", tags="\ud800"),
     Message("T", b"x", properties={"file": "\udcff.txt"})],
)  # fmt: skip
def test_half_a_character_is_refused(message: Message) -> None:
    """As Python reads the name of a file that is no UTF-8: nobody could send it."""
    with pytest.raises(BadMessage, match="no character"):
        draft(message, "ID", Config())
    with pytest.raises(BadMessage, match="no character"):
        drafts_of([(message, "ID")], Config())


@pytest.mark.parametrize(
    "message",
    [Message("T", b"x", tags="a\x02TRAN_MSG\x01true"), Message("T", b"x", keys="k\x02"),
     Message("T", b"x", keys=("a", "b\x01c")), Message("T", b"x", sharding_key="s\x02DELAY\x013")],
)  # fmt: skip
def test_what_would_be_read_as_other_properties(message: Message) -> None:
    with pytest.raises(BadMessage, match="separates properties"):
        draft(message, "ID", Config())
    with pytest.raises(BadMessage, match="separates properties"):
        drafts_of([(message, "ID")], Config())


def test_too_many_properties() -> None:
    with pytest.raises(BadMessage, match="32767"):
        draft(Message("T", b"x", properties={"x": "y" * 33000}), "ID", Config())


def test_what_an_answer_says() -> None:
    made = draft(Message("T", b"x"), "ID", Config())
    (found,) = results(Command(0, ext=FIELDS | {"MSG_REGION": "r"}), made, QUEUE, "b:1")
    assert (found.status, found.id, found.queue, found.queue_offset, found.region) == (
        SendStatus.SEND_OK, "ID", QUEUE, 9, "r",
    )  # fmt: skip
    assert found.physical_offset == 5
    (late,) = results(Command(ResponseCode.FLUSH_DISK_TIMEOUT, ext=FIELDS), made, QUEUE, "b:1")
    assert late.status is SendStatus.FLUSH_DISK_TIMEOUT


def test_an_answer_that_is_none() -> None:
    made = draft(Message("T", b"x"), "ID", Config())
    with pytest.raises(MessageIllegal, match=r"b:1 \(topic T\)"):
        results(Command(ResponseCode.MESSAGE_ILLEGAL, remark="too long"), made, QUEUE, "b:1")
    with pytest.raises(BadAnswer, match="queueId"):
        results(Command(0, ext={}), made, QUEUE, "b:1")
    (found,) = results(Command(0, ext=FIELDS | {"msgId": "?"}), made, QUEUE, "b:1")
    with pytest.raises(BadAnswer):
        _ = found.physical_offset
