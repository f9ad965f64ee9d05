"""What the client guide asks of a consumer and no other test shows, with real daemons."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.request import Request, urlopen

import pytest

from penstock.nsq.client import Config, Consumer, Message, ServerError, blocking
from penstock.nsq.client.errors import HandshakeFailed
from penstock.nsq.protocol import frames
from penstock.testing.daemons import Daemon
from tools.harness.auth_server import run_auth_server
from tools.harness.ports import unused_address

from .client_site import (
    CHANNEL,
    QUICK,
    Site,
    channel,
    consuming,
    counts,
    is_empty,
    publish,
    stopped,
    tapped,
    tcp,
    until,
)

HEARTBEAT = Config(heartbeat_interval=1, read_timeout=20)
SLOW_HEARTBEAT = Config(heartbeat_interval=5.5, read_timeout=60)


# --- discovery


async def test_what_all_nsqlookupds_know_together(site: Site, topic: str) -> None:
    """Of four one hangs and one is dead; the other two do not know the same nodes."""
    one, two, hanging = await asyncio.gather(*(site.nsqlookupd() for _ in range(3)))
    to_one, to_two = (f"--lookupd-tcp-address={each.tcp}" for each in (one, two))
    both, lonely = await asyncio.gather(site.nsqd(to_one, to_two), site.nsqd(to_two))
    lookupds = [hanging.http, unused_address(), one.http, two.http]
    seen: set[bytes] = set()
    async with (
        stopped(hanging),
        consuming(
            topic,
            lambda message: seen.add(message.body),
            lookupd_http_addresses=lookupds,
            config=QUICK,
        ) as consumer,
    ):
        await publish(topic, both, b"1")
        await publish(topic, lonely, b"2")
        await until(lambda: seen == {b"1", b"2"})
        assert sorted(consumer.connections) == sorted(tcp([both, lonely]))
        for nsqd in (both, lonely):
            assert (await counts(topic, nsqd))[2] == 1


async def test_a_topic_that_is_deleted_on_a_node_stays_deleted(site: Site, topic: str) -> None:
    """Done as nsqadmin does it. Subscribing anew would make the topic again."""
    lookupd = await site.nsqlookupd()
    flag = f"--lookupd-tcp-address={lookupd.tcp}"
    going, staying = await asyncio.gather(site.nsqd(flag), site.nsqd(flag))
    async with consuming(
        topic, lambda _: None, lookupd_http_addresses=[lookupd.http], config=QUICK
    ) as consumer:
        for nsqd in (going, staying):
            await publish(topic, nsqd, b"x")
        await until(lambda: len(consumer.connections) == 2)
        node = f"127.0.0.1:{going.http_port}"
        await _post(f"{lookupd.http}/topic/tombstone?topic={topic}&node={node}")
        await _post(f"{going.http}/topic/delete?topic={topic}")
        await until(lambda: list(consumer.connections) == [staying.tcp])
        asked = consumer._discovery._asked_at
        for _ in range(3):  # it has had every opportunity
            await until(lambda asked=asked: consumer._discovery._asked_at != asked)
            asked = consumer._discovery._asked_at
        assert list(consumer.connections) == [staying.tcp]
        assert await channel(topic, going) == {}


async def _post(url: str) -> None:
    def post() -> None:
        with urlopen(Request(f"http://{url}", method="POST"), timeout=30):
            pass

    await asyncio.to_thread(post)


# --- connections


async def test_the_first_and_the_last_words(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    await publish(topic, nsqd, b"x")
    async with tapped(nsqd) as tap:
        consumer = Consumer(topic, CHANNEL, nsqd_tcp_addresses=[tap.address], max_in_flight=5)
        message = await anext(consumer)
        message.finish()
        await consumer.close()
        subscribe = f"SUB {topic} {CHANNEL}".encode()
        finish = b"FIN " + message.id
        assert tap.sessions == [[b"IDENTIFY", subscribe, b"RDY 5", finish, b"CLS"]]
    await until(lambda: _is_left(topic, nsqd))


async def _is_left(topic: str, nsqd: Daemon) -> bool:
    return (await counts(topic, nsqd)) == (0, 0, 0)


async def test_what_a_node_knows_of_its_consumer(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    config = Config(
        client_id="me", hostname="my.host", user_agent="mine/1", sample_rate=60, max_in_flight=7,
        snappy=True, output_buffer_size=32768, output_buffer_timeout=0.1, msg_timeout=9,
    )  # fmt: skip
    async with consuming(
        topic, lambda _: None, nsqd_tcp_addresses=[nsqd.tcp], config=config
    ) as consumer:

        async def is_ready() -> bool:
            clients = (await channel(topic, nsqd)).get("clients") or [{}]
            return bool(clients[0].get("ready_count") == 7)

        await until(is_ready)
        (client,) = (await channel(topic, nsqd))["clients"]
        wanted = {
            "client_id": "me", "hostname": "my.host", "user_agent": "mine/1", "sample_rate": 60,
            "snappy": True, "deflate": False, "tls": False,
        }  # fmt: skip
        assert {name: client[name] for name in wanted} == wanted
        (link,) = consumer._replies
        server = link.server
        assert (server.output_buffer_size, server.output_buffer_timeout) == (32768, 100)
        assert (server.msg_timeout, server.sample_rate, server.snappy) == (9000, 60, True)


@pytest.mark.parametrize(("size", "seconds"), [(-1, -1), (65536, -1), (-1, 0.05)])
async def test_messages_come_however_a_node_gathers(
    site: Site, topic: str, size: int, seconds: float
) -> None:
    (nsqd,) = await site.nsqds(1)
    config = Config(output_buffer_size=size, output_buffer_timeout=seconds, max_in_flight=50)
    seen: list[bytes] = []
    bodies = [b"%d" % number * 1000 for number in range(50)]
    async with consuming(
        topic,
        lambda message: seen.append(message.body),
        nsqd_tcp_addresses=[nsqd.tcp],
        config=config,
    ):
        await publish(topic, nsqd, *bodies)
        await until(lambda: sorted(seen) == sorted(bodies))


async def test_a_node_that_does_not_negotiate(topic: str) -> None:
    """As those before NSQ 0.2.20: they answer OK, and allow 2500."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert await reader.readexactly(4) == b"  V2"
            while line := await reader.readline():
                said.put_nowait(line)
                if line == b"IDENTIFY\n":
                    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                if line.startswith((b"IDENTIFY", b"SUB")):
                    writer.write(frames.OK_FRAME)
        finally:
            writer.close()

    said: asyncio.Queue[bytes] = asyncio.Queue()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = "{}:{}".format(*server.sockets[0].getsockname())
    config = Config(snappy=True, deflate=True, tls_v1=True, max_in_flight=10_000)
    async with (
        asyncio.timeout(60),
        consuming(topic, lambda _: None, nsqd_tcp_addresses=[address], config=config) as consumer,
    ):
        subscribe = f"SUB {topic} {CHANNEL}\n".encode()
        assert [await said.get() for _ in range(3)] == [b"IDENTIFY\n", subscribe, b"RDY 2500\n"]
        (state,) = consumer.connections.values()
        assert (state.tls, state.compression, state.ready) == ("", "", 2500)
    server.close()


async def test_a_mistake_ends_the_connection_and_no_more(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    seen: list[bytes] = []
    async with consuming(
        topic,
        lambda message: seen.append(message.body),
        nsqd_tcp_addresses=[nsqd.tcp],
        config=QUICK,
    ) as consumer:
        await until(lambda: consumer.connections)
        (link,) = consumer._replies
        link.send(b"NONSENSE\n")
        await until(lambda: not link.is_open)
        assert "E_INVALID" in str(consumer.last_error)
        await publish(topic, nsqd, b"x")
        await until(lambda: seen == [b"x"])


async def test_the_http_port(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.http]) as consumer:
        with pytest.raises(HandshakeFailed, match="is this the HTTP port of nsqd"):
            await anext(consumer)


async def test_authorization_that_fails_for_a_while(site: Site, topic: str) -> None:
    """At first a refusal is told; a node that has let us in before is tried again."""
    config = Config(auth_secret="mine", lookupd_poll_interval=0.1)
    seen: list[bytes] = []
    with run_auth_server() as auth:
        nsqd = await site.nsqd(*auth.flags)
        auth.answer("mine", (403, ""))
        async with Consumer(
            topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], config=config
        ) as consumer:
            with pytest.raises(ServerError, match="E_AUTH_FAILED"):
                await anext(consumer)
        auth.allow("mine", topic)
        async with consuming(
            topic,
            lambda message: seen.append(message.body),
            nsqd_tcp_addresses=[nsqd.tcp],
            config=config,
        ) as consumer:
            await until(lambda: consumer.connections)
            auth.answer("mine", (403, ""))
            await asyncio.to_thread(nsqd.restart)
            await until(lambda: "E_AUTH_FAILED" in str(consumer.last_error))
            auth.allow("mine", topic)
            async with blocking_producer(nsqd, config) as producer:
                await asyncio.to_thread(producer.publish, topic, b"x")
            await until(lambda: seen == [b"x"])


@asynccontextmanager
async def blocking_producer(nsqd: Daemon, config: Config) -> AsyncIterator[blocking.Producer]:
    producer = blocking.Producer(nsqd.tcp, config=config)
    try:
        yield producer
    finally:
        await asyncio.to_thread(producer.close)


# --- heartbeats


async def test_a_node_that_hangs_is_left(site: Site, topic: str) -> None:
    hanging, (well, *_) = await site.nsqd(), await site.nsqds(1)
    seen: list[bytes] = []
    async with consuming(
        topic,
        lambda message: seen.append(message.body),
        nsqd_tcp_addresses=tcp([hanging, well]),
        max_in_flight=10,
        config=HEARTBEAT,
    ) as consumer:
        await until(lambda: len(consumer.connections) == 2)
        async with stopped(hanging):
            await until(lambda: "silent for 2 s" in str(consumer.last_error))
            await until(lambda: list(consumer.connections) == [well.tcp])
            await until(lambda: consumer.connections[well.tcp].ready == 10)
        await until(lambda: len(consumer.connections) == 2)
        await publish(topic, hanging, b"x")
        await until(lambda: seen == [b"x"])


async def test_who_is_busy_for_long_keeps_the_connection(site: Site, topic: str) -> None:
    """Four heartbeats; a node leaves who misses two. Nothing is touched meanwhile.

    They are so far apart that a machine that is busy for 10 s does not make us miss two.
    """
    (nsqd,) = await site.nsqds(1)
    heartbeats: set[float | None] = set()
    done = asyncio.Event()

    async with tapped(nsqd) as tap:

        async def handle(message: Message) -> None:
            state = consumer.connections[tap.address]

            def heard() -> bool:
                heartbeats.add(state.last_heartbeat)
                return len(heartbeats - {None}) >= 4

            await until(heard, 120)
            done.set()

        async with consuming(
            topic, handle, nsqd_tcp_addresses=[tap.address], config=SLOW_HEARTBEAT
        ) as consumer:
            await publish(topic, nsqd, b"x")
            async with asyncio.timeout(120):
                await done.wait()
            await until(lambda: is_empty(topic, nsqd))
        (session,) = tap.sessions
        assert session.count(b"NOP") >= 4
        assert not any(line.startswith(b"TOUCH") for line in session)


# --- messages


async def test_answers_that_come_too_late_end_nothing(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    # Long enough that a busy machine does not let them come again before RDY 0.
    config = Config(msg_timeout=12, max_in_flight=3)
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer:
        await publish(topic, nsqd, b"a", b"b", b"c")
        held = {message.body: message for message in [await anext(consumer) for _ in range(3)]}
        consumer.max_in_flight = 0  # or they would come again at once
        (state,) = consumer.connections.values()

        async def are_timed_out() -> bool:
            found = await channel(topic, nsqd)
            return bool(found["timeout_count"] == 3 and found["depth"] == 3)

        await until(are_timed_out)
        for answer, code in (
            (held[b"a"].touch, "E_TOUCH_FAILED"),
            (held[b"a"].finish, "E_FIN_FAILED"),
            (partial(held[b"b"].requeue, 0, backoff=False), "E_REQ_FAILED"),
            (held[b"c"].finish, "E_FIN_FAILED"),
        ):
            assert answer()
            await until(lambda code=code: state.last_error.startswith(code))
        assert list(consumer.connections.values()) == [state]
        consumer.max_in_flight = 3
        again = [await anext(consumer) for _ in range(3)]
        assert {message.body for message in again} == set(held)
        assert {message.attempts for message in again} == {2}
        assert all(message.finish() for message in again)
        await until(lambda: is_empty(topic, nsqd))


async def test_a_message_requeued_waits_as_long_as_told(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    config = Config(max_in_flight=2, default_requeue_delay=0.2)
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer:
        await publish(topic, nsqd, b"a", b"b")
        first = await anext(consumer)
        first.requeue(3600, backoff=False)
        (await anext(consumer)).requeue(backoff=False)

        async def deferred() -> int:
            return int((await channel(topic, nsqd))["deferred_count"])

        again = await anext(consumer)
        assert (again.body != first.body, again.attempts) == (True, 2)
        assert await deferred() == 1
        again.finish()


async def test_without_backoff_the_flow_goes_on(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    seen: list[bytes] = []

    def handle(message: Message) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise ValueError("it is bad")

    config = Config(max_in_flight=2, max_backoff_duration=0)
    async with tapped(nsqd) as tap:
        async with consuming(topic, handle, nsqd_tcp_addresses=[tap.address], config=config):
            await publish(topic, nsqd, b"bad", *[b"good"] * 5)
            await until(lambda: len(seen) == 6)
        (session,) = tap.sessions
        assert [line for line in session if line.startswith(b"RDY")] == [b"RDY 2"]


@pytest.mark.parametrize("max_in_flight", [1, 100])
async def test_ready_is_said_once_and_messages_go_on(
    site: Site, topic: str, max_in_flight: int
) -> None:
    """Nodes have not counted RDY down since NSQ 0.3 (NSQ spec 0)."""
    (nsqd,) = await site.nsqds(1)
    seen: list[bytes] = []
    bodies = [b"%d" % number for number in range(1000)]
    async with tapped(nsqd) as tap:
        async with consuming(
            topic,
            lambda message: seen.append(message.body),
            nsqd_tcp_addresses=[tap.address],
            max_in_flight=max_in_flight,
        ):
            await publish(topic, nsqd, *bodies)
            await until(lambda: sorted(seen) == sorted(bodies))
        (session,) = tap.sessions
        ready = b"RDY %d" % max_in_flight
        assert [line for line in session if line.startswith(b"RDY")] == [ready]


async def test_what_gos_own_test_does(site: Site, topic: str) -> None:
    """Three good messages; one fails until it is given up; nobody stays behind."""
    (nsqd,) = await site.nsqds(1)
    received: list[bytes] = []
    given_up: list[bytes] = []

    def handle(message: Message) -> None:
        received.append(message.body)
        if message.body == b"TOBEFAILED":
            raise ValueError("fail this message")

    config = Config(default_requeue_delay=0, max_backoff_duration=0)
    async with consuming(topic, handle, nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer:
        consumer.on_give_up = lambda message: given_up.append(message.body)
        await publish(topic, nsqd, b'{"msg":"single"}')
        await publish(topic, nsqd, *[b'{"msg":"double"}'] * 2)
        await publish(topic, nsqd, b"TOBEFAILED")
        await until(lambda: given_up)
        await until(lambda: is_empty(topic, nsqd))
    assert len(received) == 8
    assert given_up == [b"TOBEFAILED"]
    await until(lambda: _is_left(topic, nsqd))


# --- RDY


async def test_ready_in_bytes(site: Site, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """More nodes than messages wanted: all get their turn, and never too much is asked for."""
    caplog.set_level(logging.DEBUG, logger="penstock.nsq.client")
    nsqds = await site.nsqds(3)
    for number, nsqd in enumerate(nsqds):
        await publish(topic, nsqd, b"%d" % number)
    seen: set[bytes] = set()
    async with AsyncExitStack() as stack:
        taps = [await stack.enter_async_context(tapped(nsqd)) for nsqd in nsqds]
        async with consuming(
            topic,
            lambda message: seen.add(message.body),
            nsqd_tcp_addresses=[tap.address for tap in taps],
            max_in_flight=1,
            config=QUICK,
        ):
            await until(lambda: len(seen) == 3)
        told: dict[str, list[int]] = {tap.address: [0] for tap in taps}
        for record in caplog.records:
            fields = getattr(record, "nsq", {})
            if fields.get("event") == "ready":
                told[fields["address"]].append(fields["ready"])
                assert sum(counts[-1] for counts in told.values()) <= 1
        for tap in taps:
            (session,) = tap.sessions
            said = [int(line.split()[1]) for line in session if line.startswith(b"RDY")]
            assert [0, *said] == told[tap.address]


async def test_starved_by_one_node_of_two(site: Site, topic: str) -> None:
    nsqds = await site.nsqds(2)
    addresses = tcp(nsqds)
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=addresses, max_in_flight=20) as consumer:
        await until(lambda: len(consumer.connections) == 2)
        await publish(topic, nsqds[0], *[b"x"] * 20)
        await until(lambda: consumer.in_flight == 10)
        assert consumer.is_starved
        held = [await anext(consumer) for _ in range(10)]
        consumer_state = consumer.connections[nsqds[0].tcp]
        consumer.max_in_flight = 0
        for message in held[:9]:
            message.finish()
        consumer.max_in_flight = 100
        await until(lambda: consumer_state.in_flight == 11)
        assert not consumer.is_starved
        for _ in range(10):
            (await anext(consumer)).finish()
        held[9].finish()
        await until(lambda: is_empty(topic, nsqds[0]))
