"""The asyncio producer with real servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.rocketmq.client import (
    ConfigError,
    LitePullConsumer,
    Message,
    NotConnected,
    Producer,
    Received,
    SendFailed,
    SendStatus,
    TransactionState,
)
from penstock.rocketmq.client.errors import BadMessage, BadName, NoNameServer, NoRoute
from penstock.rocketmq.protocol.messages.properties import CHECK_IMMUNITY
from tools.harness.rocketmq.servers import QUICK, Servers, run_servers


async def received(servers: Servers, topic: str, count: int, group: str = "") -> list[Received]:
    """``count`` messages of a topic."""
    found: list[Received] = []
    async with LitePullConsumer(group or f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            more = await consumer.poll(timeout=60)
            assert more, f"all that comes: {[each.body for each in found]}"
            found += more
    return found


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


async def test_pipelined_sends_arrive_all(servers: Servers) -> None:
    config = replace(QUICK, max_pending=50)
    async with Producer("PG", servers.address, config=config) as producer:
        futures = [await producer.send_soon(Message("Piped", b"%d" % n)) for n in range(200)]
        assert producer.pending <= 50
        await producer.flush()
    assert len({future.result().offset_id for future in futures}) == 200
    found = await received(servers, "Piped", 200)
    assert {each.body for each in found} == {b"%d" % n for n in range(200)}


async def test_a_batch_is_split_by_its_size(servers: Servers) -> None:
    config = replace(QUICK, max_message_size=1000)
    async with Producer("PG", servers.address, config=config) as producer:
        sent = await producer.send_batch([Message("Batch", b"%d" % n * 100) for n in range(9)])
        requests = sum(state.requests for state in producer.connections.values())
    assert len({each.offset_id for each in sent}) == 9
    assert requests >= 3
    found = await received(servers, "Batch", 9)
    assert {each.id for each in found} == {each.id for each in sent}


async def test_a_one_way_message_arrives(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        await producer.send_one_way(Message("OneWay", b"x"))
        assert [each.body for each in await received(servers, "OneWay", 1)] == [b"x"]


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


async def test_a_queue_can_be_named_or_chosen(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        queues = await producer.queues("Chosen")
        named = await producer.send(Message("Chosen", b"a"), queue=queues[2])
        chosen = await producer.send(Message("Chosen", b"b"), queue=lambda every: every[-1])
    assert named.queue == queues[2]
    assert chosen.queue == queues[-1]


async def test_large_bodies_are_compressed_on_the_way(servers: Servers) -> None:
    for kind in ("ZLIB", "LZ4", "ZSTD"):
        config = replace(QUICK, compress_type=kind)
        async with Producer("PG", servers.address, config=config) as producer:
            await producer.send(Message(f"Large-{kind}", b"x" * 100_000))
        (found,) = await received(servers, f"Large-{kind}", 1)
        assert found.body == b"x" * 100_000
        assert len(found.stored.body) < 1000


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


# --- transactions ---------------------------------------------------------------------------------


async def test_a_transaction_is_delivered_when_it_is_committed(servers: Servers) -> None:
    states = {b"yes": TransactionState.COMMIT, b"no": TransactionState.ROLLBACK}
    checked: list[bytes] = []

    async def check(message: Received) -> TransactionState:
        checked.append(message.body)
        return TransactionState.COMMIT

    async def later(message: Message) -> TransactionState:
        await asyncio.sleep(0)
        return states.get(bytes(message.body), TransactionState.UNKNOWN)

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
    async with Producer(
        "CG", servers.address, config=QUICK, on_check=lambda _: TransactionState.COMMIT
    ) as other:
        await other.send(Message("TxOther", b"introduces it"))
        (found,) = await received(servers, "TxCrash", 1)
    assert found.body == b"half"


async def test_a_producer_without_check_sends_no_transactions(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        with pytest.raises(BadMessage, match="on_check"):
            await producer.send_in_transaction(Message("Tx", b"x"), lambda _: 8)


# --- errors ---------------------------------------------------------------------------------------


async def test_a_message_that_no_broker_would_take_is_refused_here(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        with pytest.raises(BadMessage, match="maxMessageSize"):
            await producer.send(Message("T", b"x" * (4 * 1024 * 1024 + 1)))
        with pytest.raises(BadMessage, match="zero"):
            await producer.send(Message("T", b""))
        with pytest.raises(BadName, match="illegal characters"):
            await producer.send(Message("a b", b"x"))
        with pytest.raises(BadName, match="forbidden"):
            await producer.send(Message("SCHEDULE_TOPIC_XXXX", b"x"))
        with pytest.raises(BadMessage, match="used by system"):
            await producer.send(Message("T", b"x", properties={"DELAY": "3"}))


async def test_no_name_server_is_named() -> None:
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        Producer("PG")
    async with Producer("PG", "127.0.0.1:1", config=QUICK) as producer:
        with pytest.raises(NoNameServer, match=r"127\.0\.0\.1:1.* namesrv_addr"):
            await producer.send(Message("T", b"x"))


async def test_traces_are_where_mqadmin_finds_them(servers: Servers) -> None:
    config = replace(QUICK, enable_msg_trace=True)
    async with Producer("PG", servers.address, config=config) as producer:
        sent = await producer.send(Message("Traced", b"x", keys="k"))
    found = await received(servers, "RMQ_SYS_TRACE_TOPIC", 1)
    (trace,) = [each for each in found if sent.id in each.keys]
    fields = trace.body.decode().rstrip("\x02").split("\x01")
    assert fields[0] == "Pub"
    assert (fields[4], fields[5], fields[7]) == ("Traced", sent.id, "k")
    assert (fields[9], fields[12], fields[13]) == ("1", sent.offset_id, "true")


async def test_the_next_name_server_is_asked_when_one_is_gone(servers: Servers) -> None:
    async with Producer("PG", f"127.0.0.1:1;{servers.address}", config=QUICK) as producer:
        await producer.send(Message("T", b"x"))
        assert producer.name_servers[0] == servers.address
        producer.set_name_servers(servers.address)
        assert producer.name_servers == [servers.address]


async def test_a_topic_that_nobody_may_create_is_named() -> None:
    with run_servers(autoCreateTopicEnable="false") as servers:
        async with Producer("PG", servers.address, config=QUICK) as producer:
            with pytest.raises(NoRoute, match="updateTopic"):
                await producer.send(Message("Nowhere", b"x"))
            servers.make_topic("Somewhere")
            await producer.send(Message("Somewhere", b"x"))
            servers.broker.kill()
            with pytest.raises(SendFailed, match=servers.broker.rocketmq) as failed:
                await producer.send(Message("Somewhere", b"x"))
            assert [type(error) for error in failed.value.errors] == [NotConnected] * 3
