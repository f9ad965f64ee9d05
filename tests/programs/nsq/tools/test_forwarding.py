"""nsq_to_http and nsq_to_nsq: where messages go over connections, and how failures are told."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from penstock.nsq.client import Config
from penstock.nsq.client.errors import BadMessage, ClientError, Unauthorized
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.lifecycle import Stop
from penstock.nsq.tools.nsq_to_nsq.command_line import parse_options
from penstock.nsq.tools.nsq_to_nsq.destinations import Destinations
from penstock.nsq.tools.nsq_to_nsq.program import forward
from penstock.nsq.tools.to_http.hops import Endpoint
from penstock.nsq.tools.to_http.publisher import Publisher, PublishFailed
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import Sink, bodies_in, channel, create, publish, serving
from tools.harness.ports import unused_address

# --- to an HTTP endpoint


@pytest.fixture
async def publisher() -> AsyncIterator[Publisher]:
    publisher = Publisher(connect_timeout=30, request_timeout=30, kept=2)
    yield publisher
    await publisher.close()


def post(address: str) -> Endpoint:
    return Endpoint("POST", address, {"User-Agent": "me"})


async def failure(publisher: Publisher, endpoint: Endpoint) -> str:
    with pytest.raises(PublishFailed) as caught:
        await publisher.publish(endpoint, b"m")
    return str(caught.value)


@pytest.mark.parametrize(("answer", "why"), [(Sink.CLOSE, "EOF"), (Sink.HALF, "unexpected EOF")])
async def test_no_answer(publisher: Publisher, answer: str, why: str) -> None:
    with serving(answer) as sink:
        url = f"http://{sink.address}/p"
        assert await failure(publisher, post(url)) == f'Post "{url}": {why}'


NO_PORT = unused_address()


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (post(f"http://u:p@{NO_PORT}/"),
         f'Post "http://u:***@{NO_PORT}/": dial tcp {NO_PORT}: connect: connection refused'),
        (post("nosuch://u:p@x/"), 'Post "nosuch://u:***@x/": unsupported protocol scheme "nosuch"'),
        (post("nosuch://x/"), 'Post "nosuch://x/": unsupported protocol scheme "nosuch"'),
        (Endpoint("GET", "h:1/%s", {}), 'Get "h:1/m": unsupported protocol scheme "h"'),
        (post("1.2.3.4:80/p"),
         'parse "1.2.3.4:80/p": first path segment in URL cannot contain colon'),
    ],
    ids=["refused", "scheme and password", "scheme", "no scheme", "address for a path"],
)  # fmt: skip
async def test_addresses_that_lead_nowhere(
    publisher: Publisher, endpoint: Endpoint, why: str
) -> None:
    assert await failure(publisher, endpoint) == why


async def test_redirects_without_end(publisher: Publisher) -> None:
    with serving(307) as sink:
        sink.elsewhere = "/p"
        said = await failure(publisher, post(f"http://{sink.address}/q"))
        assert said == 'Post "/p": stopped after 10 redirects'
        assert len(sink.requests) == 10


async def test_what_speaks_no_http(publisher: Publisher) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"220 mail.example ESMTP\r\n")
            await reader.read(1)
        finally:
            writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    said = await failure(publisher, post(url))
    assert said.startswith(f'Post "{url}": ')
    server.close()


# --- to nsqds


CONFIG = Config()
DEAD = "127.0.0.1:1"


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--max-msg-size=100") as daemon:
        yield daemon


Making = Callable[..., Destinations]


@pytest.fixture
async def make() -> AsyncIterator[Making]:
    """Makes destinations, and closes them at the end."""
    made: list[Destinations] = []

    def begin(*addresses: str, mode: str = "hostpool", status_every: int = 0) -> Destinations:
        made.append(
            Destinations(addresses, CONFIG, mode=mode, status_every=status_every, max_pending=100)
        )
        return made[-1]

    yield begin
    for each in made:
        await each.close()


@pytest.mark.parametrize(("mode", "fails"), [("hostpool", [0]), ("round-robin", [1, 3])])
async def test_a_dead_address(nsqd: Daemon, make: Making, mode: str, fails: list[int]) -> None:
    destinations = make(DEAD, nsqd.tcp, mode=mode)
    failed = []
    for number in range(4):
        try:
            await destinations.publish("t", [b"x"])
        except ClientError:
            failed.append(number)
    assert failed == fails


async def test_a_message_that_is_too_big_is_no_fault_of_the_address(
    nsqd: Daemon, make: Making
) -> None:
    create(nsqd, "big", "c")
    destinations = make(nsqd.tcp, DEAD)
    with pytest.raises(BadMessage):
        await destinations.publish("big", [b"a", b"x" * 101])
    with pytest.raises(ClientError):
        await destinations.publish("big", [b"b"])  # to the dead one
    for _ in range(3):
        await destinations.publish("big", [b"c"])
    assert channel(nsqd, "big", "c")["message_count"] == 3


@pytest.mark.parametrize(
    ("mode", "shares"), [("hostpool", 2), ("round-robin", 2), ("epsilon-greedy", 1)]
)
async def test_shares(make: Making, mode: str, shares: int) -> None:
    assert make("h:1", DEAD, "h:1", mode=mode).shares == shares


async def test_status_lines(nsqd: Daemon, make: Making, capsys: pytest.CaptureFixture[str]) -> None:
    destinations = make(nsqd.tcp, nsqd.tcp.replace("127.0.0.1", "localhost"), status_every=100)
    for _ in range(2):
        await destinations.publish("t", [b"x"] * 101)
    said = capsys.readouterr().err
    assert said.count("[aggregate]: finished 100 - 99th: ") == 2
    assert said.count(f"[{nsqd.tcp}]: finished 100 - 99th: ") == 1


async def test_refusals_count_for_status_lines_but_lost_connections_do_not(
    nsqd: Daemon, make: Making, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    destinations = make(DEAD, status_every=1)
    with pytest.raises(ClientError):
        await destinations.publish("t", [b"x"] * 3)
    assert "finished" not in capsys.readouterr().err

    async def refuse(*_: object) -> None:
        raise Unauthorized("E_UNAUTHORIZED no")

    monkeypatch.setattr("penstock.nsq.client.Producer.multi_publish", refuse)
    with pytest.raises(Unauthorized):
        await destinations.publish("t", [b"x"] * 3)
    assert capsys.readouterr().err.count("finished 1 ") == 2


async def test_from_one_nsqd_to_another(capsys: pytest.CaptureFixture[str]) -> None:
    with run_nsqd() as source, run_nsqd() as destination:
        create(source, "t", "nsq_to_nsq")
        create(destination, "u", "c")
        publish(source, "t", [b'{"a":1,"b":2}', b"x", b'{"b":3}'])
        flags = parse_options(
            ["--topic=t", "--destination-topic=u", f"--nsqd-tcp-address={source.tcp}",
             f"--destination-nsqd-tcp-address={destination.tcp}", "--whitelist-json-field=b",
             "--mode=unheard-of"]
        )  # fmt: skip
        stop = Stop()
        async with asyncio.TaskGroup() as group:
            group.create_task(forward(flags, stop))
            found = await asyncio.to_thread(bodies_in, destination, "u", "c", 2)
            stop.request()
        assert found == [b'{"b":2}', b'{"b":3}']
    said = capsys.readouterr().err
    assert "--mode=unheard-of is not one of round-robin, hostpool, epsilon-greedy" in said
    assert "ERROR: Unable to decode json: x" in said


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("lookupd-http-address=h", DEAD, "missing port"),
        (
            "nsqd-tcp-address=h:1",
            "elsewhere",
            "dial tcp: address elsewhere: missing port in address",
        ),
    ],
)
async def test_an_address_without_a_port(source: str, destination: str, text: str) -> None:
    flags = ["--topic=t", f"--{source}", f"--destination-nsqd-tcp-address={destination}"]
    with pytest.raises(ToolError, match=text):
        await forward(parse_options(flags), Stop())


@pytest.mark.parametrize("depth", [9_900, 100_000])
def test_deep_nesting(depth: int) -> None:
    """Go reads 10,000 levels, and so do we; but for the last few, where Python 3.12 and 3.13 end.

    In a process of its own because that needs much of the stack.
    """
    script = f"""
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, NoObject
body = b'{{"a":' + b"[" * {depth} + b"]" * {depth} + b"}}"
try:
    print(JsonFilter(kept=["a"]).apply(body) == body)
except NoObject:
    print("no object")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().strip() == ("True" if depth < 10_000 else "no object")
