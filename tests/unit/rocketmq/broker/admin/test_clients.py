"""Who is connected, as the tools show it, and questions that are passed on to consumers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.broker.acl.check import is_signed
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import decode
from penstock.rocketmq.protocol.signing import sign
from penstock.rocketmq.remoting import LateAnswerError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    Told,
    ask,
    ask_json,
    ask_later,
    join,
    refused,
    request,
)

MEMBER = {"clientAddr": "127.0.0.1:5000", "clientId": "c1", "language": "GO", "version": 317}


@pytest.fixture
def online(services: Services) -> None:
    """A client that consumes in the group CG and produces in PG."""
    join(services, "c1", "CG", client_version=317, language=Language.GO, topic="T", text="A||B",
         version=5, producers=("PG",))  # fmt: skip


@pytest.mark.usefixtures("online")
def test_consumers_with_what_they_subscribe(services: Services) -> None:
    assert ask_json(services, Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="CG") == {
        "connectionSet": [MEMBER],
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionTable": {
            "T": {
                "classFilterMode": False, "codeSet": [65, 66], "expressionType": "TAG",
                "subString": "A||B", "subVersion": 5, "tagsSet": ["A", "B"], "topic": "T",
            }
        },
    }  # fmt: skip
    with refused(ResponseCode.CONSUMER_NOT_ONLINE, r"the consumer group\[PG\] not online"):
        ask(services, Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="PG")


@pytest.mark.usefixtures("online")
def test_producers(services: Services) -> None:
    found = ask_json(services, Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="PG")
    assert found == {"connectionSet": [MEMBER]}
    with refused(ResponseCode.SYSTEM_ERROR, r"the producer group\[CG\] not exist"):
        ask(services, Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="CG")


@pytest.mark.usefixtures("online")
def test_all_producers_and_when_they_were_heard(services: Services, clock: FakeClock) -> None:
    heard_ms = services.now_ms
    clock.advance(7 * SECOND)
    assert ask_json(services, Code.GET_ALL_PRODUCER_INFO) == {
        "data": {
            "PG": [{
                "clientId": "c1", "language": "GO", "lastUpdateTimestamp": heard_ms,
                "remoteIP": "/127.0.0.1:5000", "version": 317,
            }]
        }
    }  # fmt: skip


# --- questions to consumers -----------------------------------------------------------------------


async def relayed(services: Services, code: int = 307, **fields: Any) -> Command:
    """What consumer c1 of G is asked, and what comes back."""
    return await ask_later(services, code, consumerGroup="G", clientId="c1", **fields)


async def test_the_answer_comes_back_as_it_is(services: Services) -> None:
    peer = FakePeer(lambda told: Command(0, ext={"k": "v"}, body=b"{as it is", remark="fine"))
    join(services, peer=peer)
    answer = await relayed(services, jstackEnable="true")
    assert (answer.code, answer.remark, answer.ext) == (0, "fine", {"k": "v"})
    assert (answer.body, answer.opaque, answer.is_response) == (b"{as it is", 7, True)
    fields = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}
    assert peer.told == [(307, fields, b"")]


@pytest.mark.parametrize("code", [307, 309])
async def test_no_consumer_sees_the_signature_of_an_administrator(
    services: Services, code: int
) -> None:
    """It is right for other requests, too, where the consumer has chosen its id for that."""
    (placed,) = await store(services, "T", 0, b"body")
    peer = join(services, peer=FakePeer(lambda told: Command(0)))
    asked = request(code, consumerGroup="G", clientId="c1", msgId=placed.message_id)
    sign(asked, "admin-key", "admin-secret")
    signed = dict(asked.ext or {}, SecurityToken="token")
    delete = request(
        207, AccessKey="admin-key", groupName="c1", x="G" + placed.message_id,
        Signature=signed["Signature"],
    )  # fmt: skip
    assert is_signed(delete, "admin-secret")
    more = {name: signed[name] for name in signed if name not in ("consumerGroup", "clientId")}
    await relayed(services, code, **more)
    (told,) = peer.told
    assert not {"AccessKey", "Signature", "SecurityToken"} & told.ext.keys()


async def test_consuming_one_message(services: Services) -> None:
    (placed,) = await store(services, "T", 0, b"body")
    peer = join(
        services, peer=FakePeer(lambda told: Command(0, body=b'{"consumeResult":"CR_SUCCESS"}'))
    )
    answer = await relayed(services, 309, msgId=placed.message_id)
    assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
    (told,) = peer.told
    assert told.ext["brokerName"] == services.settings.broker_name
    message, _ = decode(told.body)
    assert (message.body, message.physical_offset) == (b"body", placed.physical_offset)
    with pytest.raises(BodyError, match="no message id"):
        await relayed(services, 309, msgId="x")
    with pytest.raises(RefusedError, match="can not find message by the offset, 268435455"):
        await relayed(services, 309, msgId="7F000001" + "00002A9F" + "000000000FFFFFFF")


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
async def test_consumers_that_do_not_answer(
    services: Services, peer: FakePeer | None, version: int, code: int, remark: str
) -> None:
    if peer is not None:
        join(services, peer=peer, client_version=version)
    with refused(code, remark):
        await relayed(services)
