"""Our client's connections against real nodes: layers, certificates, AUTH, refusals.

Against our nsqd, and against Go's where PENSTOCK_GO_NSQ names its folder or it is on the PATH.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.request import urlopen

import pytest

from penstock.nsq.client import Consumer, Producer
from penstock.nsq.client.aio.connection import Connection as AioConnection
from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    AuthFailed,
    BadBody,
    ClientError,
    HandshakeFailed,
    IdentifyFailed,
    NotConnected,
    ServerError,
    Unauthorized,
)
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, MessageBlock, Response
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.auth_server import AuthServer, run_auth_server
from tools.harness.certificates import Certificates

from .client_site import GO

REQUIRE_VERIFY = "--tls-client-auth-policy=require-verify"
_topics = itertools.count()


def go_nsqd() -> str | None:
    """Go's nsqd on this machine, if there is one."""
    found = shutil.which("nsqd", path=GO)
    if not found:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return found if "built w/go" in said.stdout else None


GO_NSQD = go_nsqd()
Start = Callable[..., Daemon]


@pytest.fixture(
    scope="module",
    params=[
        "ours",
        pytest.param("go", marks=pytest.mark.skipif(not GO_NSQD, reason="no nsqd of Go's here")),
    ],
)
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Gives a node with these flags, the same one to all tests that ask for it."""
    program = GO_NSQD if request.param == "go" else None
    running: dict[tuple[str, ...], Daemon] = {}
    with ExitStack() as stack:

        def get(*flags: str) -> Daemon:
            if flags not in running:
                running[flags] = stack.enter_context(run_nsqd(*flags, program=program))
            return running[flags]

        yield get


@pytest.fixture(scope="module")
def auth() -> Iterator[AuthServer]:
    with run_auth_server() as server:
        yield server


@pytest.fixture
def topic() -> str:
    return f"client_{next(_topics)}"


class Talk:
    """One connection of the asyncio client, and the frames that came over it."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def open(self, address: str, config: Config, *subscription: str) -> AioConnection:
        self.link = await AioConnection.open(
            address,
            config,
            *subscription,
            on_frame=lambda link, frame: self.frames.put_nowait(frame),
            on_lost=lambda link, error: self.lost.set_result(error.reason),
        )
        return self.link

    async def next(self) -> Frame:
        async with asyncio.timeout(30):
            return await self.frames.get()

    async def publish(self, topic: str, *bodies: bytes) -> None:
        self.link.send(encode.multi_publish(topic, bodies))
        assert await self.next() == Response(b"OK")

    async def consume(self, count: int) -> list[bytes]:
        """So many messages, finished as they come."""
        bodies: list[bytes] = []
        self.link.set_ready(100)
        while len(bodies) < count:
            block = await self.next()
            assert isinstance(block, MessageBlock)
            self.link.add_in_flight(len(block))
            bodies += block.bodies()
            self.link.settled(len(block))
            self.link.answer(block.finish_commands())
        return bodies


@pytest.fixture
async def talk() -> AsyncIterator[Callable[[], Talk]]:
    talks: list[Talk] = []

    def new() -> Talk:
        talks.append(Talk())
        return talks[-1]

    yield new
    for each in talks:
        if hasattr(each, "link"):
            await each.link.close()


def both_refused(
    address: str, config: Config, kind: type[ClientError], reason: str, *subscription: str
) -> None:
    """Both clients are refused in the same words."""

    async def link() -> None:
        await Talk().open(address, config, *subscription)

    for attempt in (
        lambda: asyncio.run(link()),
        lambda: Connection(address, config, *subscription),
    ):
        with pytest.raises(kind, match=reason):
            attempt()


# --- layers

BODIES = [b"small", bytes(range(256)) * 1024, *(b"%06d" % number for number in range(500))]
LAYERS: list[dict[str, Any]] = [
    {},
    {"snappy": True},
    *({"deflate": True, "deflate_level": level} for level in (1, 6, 9)),
]


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
@pytest.mark.parametrize("options", LAYERS, ids=lambda o: "-".join(map(str, o)) or "plain")
async def test_every_layer(
    start: Start, talk: Callable[[], Talk], certificates: Certificates, topic: str,
    options: dict[str, Any], tls: bool,
) -> None:  # fmt: skip
    node = start(*certificates.flags(), "--max-deflate-level=9")
    config = Config(tls_v1=tls, tls_root_ca_file=str(certificates.ca) if tls else "", **options)
    consumer = talk()
    await consumer.open(node.tcp, config, topic, "c")
    producer = talk()
    await producer.open(node.tcp, config)
    await producer.publish(topic, *BODIES)
    assert await consumer.consume(len(BODIES)) == BODIES
    state = consumer.link.state
    assert state.tls == ("TLSv1.3" if tls else "")
    assert state.compression == next((name for name in options if options[name] is True), "")
    assert (state.messages, state.finished, state.in_flight) == (len(BODIES), len(BODIES), 0)
    if "deflate_level" in options:
        assert consumer.link.server.deflate_level == options["deflate_level"]


@pytest.mark.parametrize("options", LAYERS[:3], ids=lambda o: "-".join(map(str, o)) or "plain")
def test_every_layer_on_plain_sockets(
    start: Start, certificates: Certificates, topic: str, options: dict[str, Any]
) -> None:
    node = start(*certificates.flags())
    config = Config(tls_v1=True, tls_root_ca_file=str(certificates.ca), **options)
    consumer = Connection(node.tcp, config, topic, "c")
    producer = Connection(node.tcp, config)
    producer.send(encode.multi_publish(topic, BODIES))
    assert producer.receive(30) == Response(b"OK")
    consumer.set_ready(100)
    found: list[bytes] = []
    while len(found) < len(BODIES):
        block = consumer.receive(30)
        assert isinstance(block, MessageBlock)
        found += block.bodies()
        assert consumer.answer(block.finish_commands())
    assert found == BODIES
    assert consumer.state.tls == "TLSv1.3"
    consumer.close()
    producer.close()


async def test_producer_and_consumer_over_all_of_it(
    start: Start, certificates: Certificates, auth: AuthServer, topic: str
) -> None:
    node = start(*certificates.flags(), *auth.flags)
    auth.allow("both", topic=topic)
    config = Config(
        tls_v1=True,
        tls_root_ca_file=str(certificates.ca),
        snappy=True,
        auth_secret="both",
        max_in_flight=50,
    )
    async with Producer(node.tcp, config=config) as producer:
        await producer.multi_publish(topic, BODIES)
    addresses = [node.tcp]
    async with (
        asyncio.timeout(60),
        Consumer(topic, "c", nsqd_tcp_addresses=addresses, config=config) as consumer,
    ):
        found: list[bytes] = []
        async for delivery in consumer.deliveries():
            found += delivery.bodies()
            delivery.finish()
            if len(found) >= len(BODIES):
                break
        state = consumer.connections[node.tcp]
        assert (state.tls, state.compression) == ("TLSv1.3", "snappy")
        assert (state.messages, state.finished) == (len(BODIES), len(BODIES))
    assert sorted(found) == sorted(BODIES)


def test_two_compressions_cannot_be_had(start: Start) -> None:
    config = Config(snappy=True, deflate=True)
    both_refused(start().tcp, config, IdentifyFailed, "E_IDENTIFY_FAILED")


def test_the_node_lowers_the_level(start: Start) -> None:
    node = start("--max-deflate-level=2")
    connection = Connection(node.tcp, Config(deflate=True, deflate_level=9))
    assert connection.server.deflate_level == 2
    connection.send(encode.publish("level", b"x" * 1000))
    assert connection.receive(30) == Response(b"OK")
    connection.close()


def test_a_node_without_compression(start: Start) -> None:
    node = start("--snappy=false", "--deflate=false")
    connection = Connection(node.tcp, Config(snappy=True))
    assert connection.state.compression == ""
    connection.close()


# --- certificates


def test_whom_to_trust(start: Start, certificates: Certificates) -> None:
    node = start(*certificates.flags())
    port = node.tcp_port
    trusting = Config(tls_v1=True, tls_root_ca_file=str(certificates.ca))
    for host in ("127.0.0.1", "localhost"):
        connection = Connection(f"{host}:{port}", trusting)
        assert connection.state.tls
        connection.close()
    stranger = "certificate signed by unknown authority"
    both_refused(node.tcp, Config(tls_v1=True), HandshakeFailed, stranger)
    elsewhere = start(*certificates.flags(), "--tcp-address=127.0.0.2:0").tcp
    mismatch = r"certificate is not valid for '127\.0\.0\.2'"
    both_refused(elsewhere, trusting, HandshakeFailed, mismatch)
    careless = replace(trusting, tls_root_ca_file="", tls_insecure_skip_verify=True)
    Connection(elsewhere, careless).close()
    own = Config(tls_v1=True, tls_config=certificates.context(newest="12"))
    connection = Connection(node.tcp, own)
    assert connection.state.tls == "TLSv1.2"
    connection.close()


@pytest.mark.parametrize("oldest", ["tls1.2", "tls1.3"])
def test_a_node_that_wants_certificates(
    start: Start, certificates: Certificates, oldest: str
) -> None:
    root = f"--tls-root-ca-file={certificates.ca}"
    node = start(*certificates.flags(), REQUIRE_VERIFY, root)
    without = Config(tls_v1=True, tls_root_ca_file=str(certificates.ca), tls_min_version=oldest)
    both_refused(node.tcp, without, HandshakeFailed, "remote error: tls: certificate required")
    with_one = replace(without, tls_cert=str(certificates._client))
    connection = Connection(node.tcp, with_one)
    connection.send(encode.publish("certified", b"x"))
    assert connection.receive(30) == Response(b"OK")
    connection.close()
    strange = replace(without, tls_cert=str(certificates._self))
    both_refused(node.tcp, strange, HandshakeFailed, "remote error: tls: ")


def test_a_node_without_certificates(start: Start, certificates: Certificates) -> None:
    trusting = Config(tls_v1=True, tls_root_ca_file=str(certificates.ca))
    both_refused(start().tcp, trusting, HandshakeFailed, "the server offers no TLS")
    Connection(start().tcp, Config(tls_v1=True)).close()


def test_a_node_that_wants_tls(start: Start, certificates: Certificates) -> None:
    node = start(*certificates.flags(), "--tls-required=true")
    both_refused(node.tcp, Config(), ServerError, "TLS required", "t", "c")


# --- AUTH


async def test_auth(start: Start, talk: Callable[[], Talk], auth: AuthServer, topic: str) -> None:
    node = start(*auth.flags)
    auth.allow("good", topic=f"^{topic}$", identity="somebody")
    consumer = talk()
    await consumer.open(node.tcp, Config(auth_secret="good"), topic, "c")
    producer = talk()
    await producer.open(node.tcp, Config(auth_secret="good"))
    await producer.publish(topic, b"x")
    assert await consumer.consume(1) == [b"x"]
    producer.link.send(encode.publish("another", b"x"))
    error = await producer.next()
    assert isinstance(error, Error)
    assert error.code == "E_UNAUTHORIZED"
    async with asyncio.timeout(30):
        assert (await producer.lost).startswith("the server closed the connection after E_UNAUTH")


def test_auth_refused(start: Start, auth: AuthServer) -> None:
    node = start(*auth.flags)
    both_refused(node.tcp, Config(), HandshakeFailed, "Auth Required: the server requires")
    both_refused(node.tcp, Config(auth_secret="wrong"), AuthFailed, "E_AUTH_FAILED")
    auth.answer("nothing", (200, '{"ttl":60,"authorizations":[]}'))
    both_refused(node.tcp, Config(auth_secret="nothing"), Unauthorized, "no authorizations found")
    auth.allow("elsewhere", topic="^elsewhere$")
    config = Config(auth_secret="elsewhere")
    both_refused(node.tcp, config, Unauthorized, "AUTH failed for SUB", "t", "c")


async def test_auth_expired(
    start: Start, talk: Callable[[], Talk], auth: AuthServer, topic: str
) -> None:
    """The node asks again when the time is over, and the answer is another."""
    node = start(*auth.flags)
    auth.allow("short", topic=topic, ttl=1)
    producer = talk()
    await producer.open(node.tcp, Config(auth_secret="short"))
    await producer.publish(topic, b"x")
    auth.answer("short", (403, ""))
    producer.link.send(encode.publish(topic, b"x"))
    while (frame := await producer.next()) == Response(b"OK"):
        await asyncio.sleep(0.05)
        producer.link.send(encode.publish(topic, b"x"))
    assert isinstance(frame, Error)
    assert frame.code == "E_AUTH_FAILED"


# --- what IDENTIFY asks


def unanswered(node: Daemon, topic: str) -> int:
    """Messages that wait in the topic's channel, or for an answer."""
    with urlopen(f"http://{node.http}/stats?format=json&topic={topic}") as answer:
        (channel,) = json.load(answer)["topics"][0]["channels"]
    return int(channel["depth"] + channel["in_flight_count"])


async def test_a_sample_is_a_part(start: Start, talk: Callable[[], Talk], topic: str) -> None:
    node = start()
    consumer = talk()
    await consumer.open(node.tcp, Config(sample_rate=42), topic, "c")
    assert consumer.link.server.sample_rate == 42
    producer = talk()
    await producer.open(node.tcp, Config())
    consumer.link.set_ready(2500)
    total = 2000
    await producer.publish(topic, *[b"%d" % number for number in range(total)])
    async with asyncio.timeout(120):
        while await asyncio.to_thread(unanswered, node, topic):
            while not consumer.frames.empty():
                block = consumer.frames.get_nowait()
                assert isinstance(block, MessageBlock)
                consumer.link.answer(block.finish_commands())
    assert 0.3 * total < consumer.link.state.finished < 0.55 * total


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"heartbeat_interval": 0.1}, r"E_BAD_BODY IDENTIFY heartbeat interval \(100\) is invalid"),
        ({"msg_timeout": 0.5}, r"E_BAD_BODY IDENTIFY msg timeout \(500\) is invalid"),
        ({"output_buffer_size": 10}, r"E_BAD_BODY IDENTIFY output buffer size \(10\) is invalid"),
    ],
)
def test_values_that_the_node_does_not_take(
    start: Start, options: dict[str, Any], reason: str
) -> None:
    both_refused(start().tcp, Config(**options), BadBody, reason)


async def test_a_second_between_heartbeats(start: Start, talk: Callable[[], Talk]) -> None:
    producer = talk()
    link = await producer.open(start().tcp, Config(heartbeat_interval=1))
    async with asyncio.timeout(30):
        while link.state.last_heartbeat is None:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.05)
    await producer.publish("heartbeats", b"x")
    assert link.is_open


# --- the wrong place


def test_the_http_port(start: Start) -> None:
    text = r"unexpected HTTP response; is this the HTTP port of nsqd\?"
    both_refused(start().http, Config(), HandshakeFailed, text)


def test_the_https_port(start: Start, certificates: Certificates) -> None:
    node = start(*certificates.flags())
    assert node.https is not None
    text = r"closed the connection before it answered \(IDENTIFY\)|unexpected HTTP response"
    both_refused(node.https, Config(), ClientError, text)


async def test_a_node_that_stops(talk: Callable[[], Talk], start: Start, topic: str) -> None:
    node = start("--max-rdy-count=7")
    consumer = talk()
    link = await consumer.open(node.tcp, Config(), topic, "c")
    link.set_ready(100)
    assert link.ready == 7
    node.restart()
    async with asyncio.timeout(30):
        assert await consumer.lost
    with pytest.raises(NotConnected):
        Connection(f"127.0.0.1:{node.tcp_port}", Config(local_addr="192.0.2.1:0"))
    Connection(node.tcp, Config()).close()
