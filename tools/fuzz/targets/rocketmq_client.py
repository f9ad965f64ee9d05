"""Answers of servers to our RocketMQ client."""

from __future__ import annotations

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.consume.popping import read_popped
from penstock.rocketmq.client.consume.receipts import batch_of_acks
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.client.network.routes import Route
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.client.produce.compression import BODY_BYTES_MAX, decompress
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import encode
from tools.harness.rocketmq.records import stored

from . import Target

ERROR_MAX = 1000


def _refused(error: PenstockError) -> None:
    assert 0 < len(str(error)) < ERROR_MAX


def routes(data: bytes) -> None:
    """A route: queues of brokers, in their order."""
    try:
        route = Route.parse("T", data)
    except BadAnswer as error:
        _refused(error)
        return
    assert {queue.topic for queue in (*route.readable, *route.writable)} <= {"T"}


def streams(data: bytes) -> None:
    """Bytes of a server: each answer finds its request, or there is none."""
    wire = Wire("b:1", Config(), SYSTEM_CLOCK, lambda _: None, lambda *_: None)
    asked = [wire.ask(Command(11), 1.0) for _ in range(3)]
    try:
        wire.receive_data(data)
    except BadAnswer as error:
        _refused(error)
    assert sum(promise.is_done for promise in asked) <= wire.state.answers


def pops(data: bytes) -> None:
    """The fields of an answer to a pop, one a line, over a body with two messages."""
    words = data.decode("utf-8", "replace").split("\n")
    names = ("popTime", "invisibleTime", "reviveQid", "startOffsetInfo", "orderCountInfo")
    fields = dict(zip(names, words, strict=False))
    body = encode(stored()) + encode(stored(POP_CK=words[-1].replace("\x02", "")))
    try:
        found = read_popped("b:1", Command(0, ext=fields, body=body), "a", "")
    except BadAnswer as error:
        _refused(error)
        return
    for message in found:
        assert len(str(message.receipt).split(" ")) == 8
    assert batch_of_acks("a", "G", "T", [message.receipt for message in found])["acks"]


def bodies(data: bytes) -> None:
    """A body of any compression."""
    for flag in (0x1, 0x101, 0x201, 0x301):
        assert len(decompress(data, flag)) <= max(BODY_BYTES_MAX, len(data))


_ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"a:1","1":"a:2"},"brokerName":"a"}],"queueDatas":'
    b'[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":4}],"orderTopicConf":"a:2"}'
)
_ANSWERS = b"".join(frames.encode(Command(0, n, {"k": "v"}, b"x", flag=1)) for n in (2, 1, 9))

TARGETS = {
    "rocketmq_client_routes": Target(
        routes, [_ROUTE, _ROUTE.replace(b'"0":', b"0:")],
        [b"null", b"[]", b"{}", b"-1", b"99999999999", b'":"', b"1e9", b";", b'"perm":'],
    ),
    "rocketmq_client_streams": Target(
        streams, [_ANSWERS], [b"HTTP", b"\x15\x03", b"\0\0\0\0", b"\xff\xff\xff\xff"]
    ),
    "rocketmq_client_pops": Target(
        pops, [b"50\n60\n7\n0 0 0\n1 2 3 4 1 a 0 5"],
        [b"\n", b" ", b";", b"-1", b"9" * 30, "²".encode(), b"0 0"],
    ),
    "rocketmq_client_bodies": Target(bodies, [b"x\x9c\x03\0\0\0\0\x01"], [b"\x04\x22\x4d\x18"]),
}  # fmt: skip
