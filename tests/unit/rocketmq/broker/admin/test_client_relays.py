"""Questions that are passed on to consumers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.rocketmq.broker.acl.check import is_signed
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import decode
from penstock.rocketmq.protocol.signing import sign
from penstock.rocketmq.remoting import LateAnswerError
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    Told,
    answered_later,
    hand_over,
    heartbeat,
    request,
)


def join(services: Services, peer: FakePeer, version: int = 409) -> None:
    services.topics.make_inner("%RETRY%G", 1, 0)
    beat = request(34, heartbeat("c1", "G"), version=version)
    hand_over(services, peer.connection, beat)
    peer.told.clear()


def ask(services: Services, code: int = 307, **fields: Any) -> Command:
    asked = request(code, consumerGroup="G", clientId="c1", **fields)
    return asyncio.run(answered_later(services, FakePeer().connection, asked))


def test_the_answer_comes_back_as_it_is(services: Services) -> None:
    peer = FakePeer(lambda told: Command(0, ext={"k": "v"}, body=b"{as it is", remark="fine"))
    join(services, peer)
    answer = ask(services, jstackEnable="true")
    assert (answer.code, answer.remark, answer.ext) == (0, "fine", {"k": "v"})
    assert (answer.body, answer.opaque, answer.is_response) == (b"{as it is", 7, True)
    fields = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}
    assert peer.told == [(307, fields, b"")]


@pytest.mark.parametrize("code", [307, 309])
def test_no_consumer_sees_the_signature_of_an_administrator(services: Services, code: int) -> None:
    """It is right for other requests, too, where the consumer has chosen its id for that."""
    placed = asyncio.run(services.publisher.publish_one(Draft("T", 0, b"body")))
    peer = FakePeer(lambda told: Command(0))
    join(services, peer)
    asked = request(code, consumerGroup="G", clientId="c1", msgId=placed.message_id)
    sign(asked, "admin-key", "admin-secret")
    signed = dict(asked.ext or {}, SecurityToken="token")
    delete = request(
        207, AccessKey="admin-key", groupName="c1", x="G" + placed.message_id,
        Signature=signed["Signature"],
    )  # fmt: skip
    assert is_signed(delete, "admin-secret")
    more = {name: signed[name] for name in signed if name not in ("consumerGroup", "clientId")}
    ask(services, code, **more)
    (told,) = peer.told
    assert not {"AccessKey", "Signature", "SecurityToken"} & told.ext.keys()


def test_consuming_one_message(services: Services) -> None:
    placed = asyncio.run(services.publisher.publish_one(Draft("T", 0, b"body")))
    peer = FakePeer(lambda told: Command(0, body=b'{"consumeResult":"CR_SUCCESS"}'))
    join(services, peer)
    answer = ask(services, 309, msgId=placed.message_id)
    assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
    (told,) = peer.told
    assert told.ext["brokerName"] == services.settings.broker_name
    message, _ = decode(told.body)
    assert (message.body, message.physical_offset) == (b"body", placed.physical_offset)
    with pytest.raises(BodyError, match="no message id"):
        ask(services, 309, msgId="x")
    with pytest.raises(RefusedError, match="can not find message by the offset, 268435455"):
        ask(services, 309, msgId="7F000001" + "00002A9F" + "000000000FFFFFFF")


def late(told: Told) -> Command:
    raise LateAnswerError("it did not answer within 10 s")


@pytest.mark.parametrize(
    ("peer", "version", "code", "remark"),
    [
        (None, 409, 1, "The Consumer <G> <c1> not online"),
        (FakePeer(), 61, 1, "Version <61> too low to finish"),
        (FakePeer(), 62, 1, "invoke consumer <G> <c1>: nobody there"),
        (FakePeer(late), 409, 207, "consumer <G> <c1> Timeout: it did not answer within 10 s"),
    ],
)
def test_consumers_that_do_not_answer(
    services: Services, peer: FakePeer | None, version: int, code: int, remark: str
) -> None:
    if peer is not None:
        join(services, peer, version)
    with pytest.raises(RefusedError, match=remark) as refusal:
        ask(services)
    assert refusal.value.code == code
