"""The producers with real servers: those with a ``shell`` of both libraries."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import (
    ConfigError,
    LitePullConsumer,
    Message,
    NoReply,
    NotConnected,
    Producer,
    PushConsumer,
    Received,
    SendFailed,
    SendStatus,
    Stopped,
    TransactionState,
    blocking,
)
from penstock.rocketmq.client.errors import BadMessage, BadName, NoNameServer, NoRoute
from penstock.rocketmq.protocol.messages.properties import CHECK_IMMUNITY
from tests.programs.rocketmq.client.conftest import Shell, Site
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers, run_servers

COMMIT, UNKNOWN = TransactionState.COMMIT, TransactionState.UNKNOWN


async def received(servers: Servers, topic: str, count: int) -> list[Received]:
    """``count`` messages of a topic."""
    found: list[Received] = []
    async with LitePullConsumer(f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            more = await consumer.poll(timeout=60)
            assert more, f"all that comes: {[each.body for each in found]}"
            found += more
    return found


async def test_all_ways_of_sending(site: Site) -> None:
    def made(number: int) -> Message:
        return Message(site.topic, b"%d" % number)

    async with site.producer(config=replace(QUICK, max_pending=50)) as producer:
        await producer.send(made(0))
        await producer.send_batch([made(1), made(2)])
        await producer.send_one_way(made(3))
        outcomes = [await producer.send_soon(made(number)) for number in range(4, 200)]
        assert 0 < producer.pending <= 50
        await producer.flush()
        assert all(outcome.done() for outcome in outcomes)
        assert len({outcome.result().offset_id for outcome in outcomes}) == 196
        queues = await producer.queues(site.topic)
        assert (await producer.send(made(200), queue=queues[2])).queue == queues[2]
        chosen = await producer.send(made(201), queue=lambda every: every[-1])
        assert chosen.queue == queues[-1]
    found = await received(site.servers, site.topic, 202)
    assert sorted(int(each.body) for each in found) == [*range(202)]


async def test_a_message_arrives_with_all_that_it_has(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        message = Message("Whole", b"body", tags="tea", keys=["k1", "k2"], flag=7,
                          properties={"who": "me"})  # fmt: skip
        sent = await producer.send(message)
    (found,) = await received(servers, "Whole", 1)
    assert sent.status is SendStatus.SEND_OK
    assert (found.body, found.tags, found.keys, found.flag) == (b"body", "tea", ["k1", "k2"], 7)
    assert found.properties["who"] == "me"
    assert (found.id, found.offset_id) == (sent.id, sent.offset_id)
    assert found.topic == "Whole"
    assert (found.queue, found.queue_offset) == (sent.queue, sent.queue_offset)


async def test_a_batch_is_split_by_its_size(servers: Servers) -> None:
    config = replace(QUICK, max_message_size=1000)
    async with Producer("PG", servers.address, config=config) as producer:
        sent = await producer.send_batch([Message("Batch", b"%d" % n * 100) for n in range(9)])
        requests = sum(state.requests for state in producer.connections.values())
    assert len({each.offset_id for each in sent}) == 9
    assert requests >= 3
    found = await received(servers, "Batch", 9)
    assert {each.id for each in found} == {each.id for each in sent}


async def test_messages_of_a_key_go_to_one_queue_and_stay_in_order(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        sent = [
            await producer.send(Message("Keyed", b"%d" % n, sharding_key=f"order-{n % 3}"))
            for n in range(12)
        ]
    for key in range(3):
        assert len({each.queue for each in sent[key::3]}) == 1
    found = await received(servers, "Keyed", 12)
    bodies = [int(each.body) for each in found if int(each.body) % 3 == 1]
    assert bodies == sorted(bodies)


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
async def test_large_bodies_are_compressed_on_the_way(servers: Servers, kind: str) -> None:
    config = replace(QUICK, compress_type=kind)
    async with Producer("PG", servers.address, config=config) as producer:
        await producer.send(Message(f"Large-{kind}", b"x" * 100_000))
    (found,) = await received(servers, f"Large-{kind}", 1)
    assert found.body == b"x" * 100_000
    assert len(found.stored.body) < 1000


async def test_a_body_that_packing_makes_longer_than_a_broker_takes(servers: Servers) -> None:
    noise = random.Random(7).randbytes(QUICK.max_message_size)
    async with Producer("PG", servers.address, config=QUICK) as producer:
        await producer.send(Message("Noise", noise))
    assert [each.body for each in await received(servers, "Noise", 1)] == [noise]


@pytest.mark.parametrize("message", [
    Message("Level", b"delayed", delay_level=1), Message("Later", b"delayed", delay=0.5),
], ids=["level", "timed"])  # fmt: skip
async def test_a_delayed_message_comes_later(servers: Servers, message: Message) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        await producer.send(message)
    (found,) = await received(servers, message.topic, 1)
    assert found.stored_at - found.born_at >= 0.45


async def test_a_namespace_keeps_topics_apart(servers: Servers) -> None:
    inside = replace(QUICK, namespace="ns")
    async with Producer("PG", servers.address, config=inside) as producer:
        sent = await producer.send(Message("Apart", b"in"))
    assert sent.queue.topic == "ns%Apart"
    async with LitePullConsumer("GApart", servers.address, config=inside) as consumer:
        consumer.subscribe("Apart")
        (found,) = await consumer.poll(timeout=60)
    assert (found.topic, found.body) == ("Apart", b"in")


async def test_a_request_gets_its_reply(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Leaping()
    async with (
        site.producer(clock=clock) as producer,
        site.producer() as replier,
        PushConsumer(site.topic, site.servers.address, config=QUICK) as consumer,
    ):
        consumer.subscribe(site.topic)
        task = asyncio.create_task(
            consumer.run(lambda message: replier.reply(message, b"re: " + message.body))
        )
        answer = await producer.request(Message(site.topic, b"tea?"), timeout=60)
        assert answer.body == b"re: tea?"
        deliver = producer._publisher.deliver

        async def delivered(*arguments: Any) -> Any:
            found = await deliver(*arguments)
            clock.ahead_ns += round(SECONDS * SECOND)  # and no reply comes in this time
            return found

        monkeypatch.setattr(producer._publisher, "deliver", delivered)
        with pytest.raises(NoReply, match=r"Unheard.* see that a consumer"):
            await producer.request(Message("Unheard", b"anybody?"), timeout=SECONDS)
        await consumer.close()
        await task


# --- transactions ---------------------------------------------------------------------------------


async def test_a_transaction_is_delivered_when_it_is_committed(servers: Servers) -> None:
    states = {b"yes": COMMIT, b"no": TransactionState.ROLLBACK}
    checked: list[bytes] = []

    async def check(message: Received) -> TransactionState:
        checked.append(message.body)
        return COMMIT

    async def later(message: Message) -> TransactionState:
        await asyncio.sleep(0)
        return states.get(bytes(message.body), UNKNOWN)

    async with Producer("TG", servers.address, config=QUICK, on_check=check) as producer:
        for body in (b"no", b"yes", b"asked"):
            # None is asked for that ends at once, however long that takes.
            properties = {CHECK_IMMUNITY: "600"} if body in states else {}
            await producer.send_in_transaction(Message("Tx", body, properties=properties), later)
        with pytest.raises(ZeroDivisionError):
            await producer.send_in_transaction(Message("Tx", b"failed"), lambda _: 1 // 0)
        found = await received(servers, "Tx", 3)
    assert {each.body for each in found} == {b"yes", b"asked", b"failed"}
    assert set(checked) == {b"asked", b"failed"}


async def test_another_producer_of_the_group_is_asked_after_a_crash(servers: Servers) -> None:
    crashed = Producer("CG", servers.address, config=QUICK, on_check=lambda _: 8)

    def crash(_: Message) -> TransactionState:
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        await crashed.send_in_transaction(Message("TxCrash", b"half"), crash)
    crashed._hub.close()  # without a word to anybody
    async with Producer("CG", servers.address, config=QUICK, on_check=lambda _: COMMIT) as other:
        await other.send(Message("TxOther", b"introduces it"))
        (found,) = await received(servers, "TxCrash", 1)
    assert found.body == b"half"


def test_a_blocking_producer_is_asked_while_it_works(servers: Servers) -> None:
    checked: list[bytes] = []

    def check(message: Received) -> TransactionState:
        checked.append(message.body)
        return COMMIT

    with blocking.Producer("BTG", servers.address, config=QUICK, on_check=check) as producer:
        producer.send_in_transaction(Message("BTx", b"1"), lambda _: COMMIT)
        producer.send_in_transaction(Message("BTx", b"2"), lambda _: UNKNOWN)
        ends = time.monotonic() + SECONDS
        while b"2" not in checked:  # of the other it asks, too, if that is not ended at once
            assert time.monotonic() < ends, checked
            producer.work(0.1)
        producer.work()
    assert sorted(each.body for each in asyncio.run(received(servers, "BTx", 2))) == [b"1", b"2"]


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        (Message("T", bytes(QUICK.max_message_size + 1)), BadMessage, "maxMessageSize"),
        (Message("T", b""), BadMessage, "zero"),
        (Message("a b", b"x"), BadName, "illegal characters"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), BadName, "forbidden"),
        (Message("T", b"x", properties={"DELAY": "3"}), BadMessage, "used by system"),
    ],
)
async def test_a_message_that_no_broker_would_take_is_refused_here(
    servers: Servers, message: Message, error: type[Exception], words: str
) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        with pytest.raises(error, match=words):
            await producer.send(message)


def test_a_failure_of_send_soon_is_raised_by_flush(servers: Servers) -> None:
    with blocking.Producer("PG", servers.address, config=QUICK) as producer:
        producer.send_soon(Message("T", b""))
        with pytest.raises(BadMessage):
            producer.flush()
        producer.flush()


def until_answered(producer: blocking.Producer, address: str) -> None:
    """Wait until the answer to a send has come from a server, and leave it unread."""
    (link,) = (each for each in producer._hub._links.values() if each.wire.address == address)
    said, ends = b"", time.monotonic() + SECONDS
    while b"msgId" not in said:
        assert time.monotonic() < ends, said
        with suppress(BlockingIOError):
            said = link.socket.recv(1 << 16, socket.MSG_PEEK)
        time.sleep(0.01)


def test_no_send_is_late_because_the_program_did_something_else(servers: Servers) -> None:
    clock = Leaping()
    with blocking.Producer("PG", servers.address, config=QUICK, clock=clock) as producer:
        for body in (b"not sent, nor is there a connection", b"not sent", b"answered, but unread"):
            outcome = producer.send_soon(Message("Pauses", body))
            if body.startswith(b"answered"):
                producer._hub._flush_all()
                until_answered(producer, servers.broker.rocketmq)
            clock.ahead_ns += 100 * SECOND
            assert outcome.result().offset_id


async def test_no_name_server_is_named(shell: Shell) -> None:
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        shell.producer("PG")
    async with shell.producer("PG", "127.0.0.1:1", config=QUICK) as producer:
        with pytest.raises(NoNameServer, match=r"connect to 127\.0\.0\.1:1 failed.*namesrv_addr"):
            await producer.send(Message("T", b"x"))


async def test_brokers_that_do_not_take_it_are_named_and_tried_again(shell: Shell) -> None:
    with run_servers(autoCreateTopicEnable="false") as servers:
        async with shell.producer("PG", servers.address, config=QUICK) as producer:
            with pytest.raises(NoRoute, match="updateTopic"):
                await producer.send(Message("Nowhere", b"x"))
            servers.make_topic("Somewhere")
            await producer.send(Message("Somewhere", b"x"))
            servers.broker.kill()
            with pytest.raises(SendFailed, match=servers.broker.rocketmq) as failed:
                await producer.send(Message("Somewhere", b"x"))
            assert [type(error) for error in failed.value.errors] == [NotConnected] * 3
            await asyncio.to_thread(servers.broker.start)
            await producer.send(Message("Somewhere", b"x"))


async def test_a_closed_producer_says_so(site: Site) -> None:
    producer = site.producer()
    await producer.send(Message("T", b"x"))
    await producer.close()
    await producer.close()
    with pytest.raises(Stopped, match="closed"):
        await producer.send(Message("T", b"x"))
