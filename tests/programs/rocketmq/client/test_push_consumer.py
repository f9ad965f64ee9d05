"""The push consumers with real servers: what is acknowledged is seen, whatever happens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.client import (
    ClientError,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    Received,
    RetryLater,
    blocking,
    sql,
)
from penstock.rocketmq.client.consume.locks import Locks
from penstock.rocketmq.client.errors import BadFilter
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import MqBroker, run_mqbroker
from tools.harness.rocketmq.servers import (
    QUICK,
    SECONDS,
    Servers,
    make_topic,
    patience,
    run_servers,
    until,
)


async def fill(servers: Servers, topic: str, count: int, start: int = 0, queues: int = 4) -> None:
    """Send ``count`` numbers, in order in each queue: of several that are under way together, a
    Java broker may store the later one first.
    """
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(start, start + count):
            message = Message(topic, b"%d" % number)
            await producer.send(message, queue=lambda every, n=number: every[n % len(every)])


class Member:
    """A consumer at work, and what it has seen."""

    def __init__(self, servers: Servers, group: str, topic: str, **more: object) -> None:
        config = more.pop("config", QUICK)
        self.consumer = PushConsumer(group, servers.address, config=config, **more)  # type: ignore[arg-type]
        self.consumer.subscribe(topic)
        self.seen: list[Received] = []
        self.on_message: Callable[[Received], object] = lambda message: None
        self.task = asyncio.create_task(self.consumer.run(self._handle, concurrency=8))

    async def _handle(self, message: Received) -> None:
        found = self.on_message(message)
        if asyncio.iscoroutine(found):
            await found
        self.seen.append(message)

    async def close(self) -> None:
        await self.consumer.close()
        await self.task

    async def crash(self) -> None:
        """Go without a word."""
        self.consumer._hub.close()
        self.task.cancel()
        await asyncio.wait([self.task])


def numbers(*members: Member) -> list[int]:
    return [int(message.body) for member in members for message in member.seen]


def own(member: Member, topic: str) -> set[int]:
    return {each.queue.queueId for each in member.consumer.queues if each.topic == topic}


async def test_the_members_of_a_group_share_queues_and_skip_nothing(servers: Servers) -> None:
    servers.make_topic("Shared", 8)
    await fill(servers, "Shared", 100)
    first = Member(servers, "SG", "Shared")
    await until(lambda: len(own(first, "Shared")) == 8)
    second = Member(servers, "SG", "Shared")
    await until(lambda: len(own(first, "Shared")) == len(own(second, "Shared")) == 4)
    assert not own(first, "Shared") & own(second, "Shared")
    await fill(servers, "Shared", 100, start=100)
    await until(lambda: set(numbers(first, second)) == set(range(200)))
    await first.close()
    await until(lambda: len(own(second, "Shared")) == 8)
    await fill(servers, "Shared", 100, start=200)
    await until(lambda: set(numbers(first, second)) == set(range(300)))
    await second.close()


async def test_one_queue_is_reset_while_a_member_is_at_work(servers: Servers) -> None:
    """As 5.3's ``mqadmin resetOffsetByTime -q 0 -o 15`` does it: a commit, then the reset."""
    servers.make_topic("Reset", 4)
    await fill(servers, "Reset", 80)
    member = Member(servers, "ReG", "Reset")
    await until(lambda: len(numbers(member)) == 80)
    await until(lambda: sum(each.held for each in member.consumer.queues) == 0)
    member.seen.clear()
    if isinstance(servers.broker, MqBroker):  # Java's waits for a pull of the queue
        reset_one(servers.broker.rocketmq, "Reset", "ReG", queue=0, offset=15)
        await until(lambda: len(numbers(member)) == 5)
        await fill(servers, "Reset", 4, start=80)
        await until(lambda: 83 in numbers(member))
        counts = Counter(message.queue.queueId for message in member.seen)
        assert counts == {0: 6, 1: 1, 2: 1, 3: 1}
    await member.close()


def reset_one(broker: str, topic: str, group: str, queue: int, offset: int) -> None:
    """Reset one queue of a group."""
    link = RemotingLink(broker, SECONDS)
    at = {"topic": topic, "queueId": queue}
    link.ask(
        RequestCode.UPDATE_CONSUMER_OFFSET, {**at, "consumerGroup": group, "commitOffset": offset}
    )
    answer = link.ask(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {**at, "group": group, "timestamp": 0, "isForce": "false", "offset": offset},
    )
    link.close()
    assert answer.code == 0, answer.remark


async def test_orderly_consumption_sees_no_inversion_while_members_come_and_go(
    servers: Servers,
) -> None:
    servers.make_topic("Ordered")
    first_seen: dict[int, list[int]] = {}
    numbers_seen: set[int] = set()
    busy: Counter[int] = Counter()

    async def handle(message: Received) -> None:
        queue, number = message.queue.queueId, int(message.body)
        busy[queue] += 1
        assert busy[queue] == 1, "two members handle one queue"
        await asyncio.sleep(0.001)
        seen = first_seen.setdefault(queue, [])
        if message.queue_offset not in seen:
            seen.append(message.queue_offset)
        numbers_seen.add(number)
        busy[queue] -= 1
        if number % 17 == 3 and message.reconsume_times == 0:
            raise RetryLater

    def member() -> Member:
        made = Member(servers, "OG", "Ordered", orderly=True)
        made.on_message = handle
        return made

    def seen_all(count: int) -> bool:
        return numbers_seen == set(range(count))

    members = [member()]
    for turn in range(4):
        await fill(servers, "Ordered", 60, start=60 * turn)
        if turn % 2 == 0:
            members.append(member())
        else:
            await members.pop(0).close()
        await until(lambda turn=turn: seen_all(60 * (turn + 1)))
    for each in members:
        await each.close()
    for seen in first_seen.values():
        assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("orderly", "most", "error", "tries"),
    [
        (False, 1, RetryLater(delay_level=1), [0, 1]),
        (False, 16, RetryLater(delay_level=-1), [0]),
        (True, 2, ValueError("never"), [0, 1, 2]),
    ],
    ids=["again", "at once", "in order"],
)
async def test_a_message_that_fails_is_a_dead_letter_in_the_end(
    servers: Servers, topic: str, orderly: bool, most: int, error: Exception, tries: list[int]
) -> None:
    """In order those behind it wait until it goes aside."""
    servers.make_topic(topic, 1)
    await fill(servers, topic, 4)
    config = replace(QUICK, max_reconsume_times=most)
    member = Member(servers, topic, topic, orderly=orderly, config=config)
    tried: list[tuple[int, str]] = []

    def handle(message: Received) -> None:
        if message.body == b"1":
            tried.append((message.reconsume_times, message.topic))
            raise error

    member.on_message = handle
    await until(lambda: len(tried) == len(tries) and len(member.seen) == 3)
    assert (numbers(member) if orderly else sorted(numbers(member))) == [0, 2, 3]
    async with LitePullConsumer(f"Dead-{topic}", servers.address, config=QUICK) as dead:
        dead.subscribe(f"%DLQ%{topic}")
        letters = await dead.poll(timeout=60)
    await member.close()
    assert tried == [(count, topic) for count in tries]
    assert [letter.body for letter in letters] == [b"1"]


async def test_each_broadcast_member_has_every_message(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("offsets")
    await fill(servers, "Broad", 20)
    members = []
    for name in ("a", "b"):
        config = replace(
            QUICK, message_model="BROADCASTING", instance_name=name, offset_store_path=str(folder)
        )
        members.append(Member(servers, "BG", "Broad", config=config))
    for member in members:
        await until(lambda member=member: sorted(numbers(member)) == list(range(20)))
        await member.close()
    await fill(servers, "Broad", 1, start=20)
    again = Member(servers, "BG", "Broad", config=config)
    await until(lambda: numbers(again) == [20])
    await again.close()


async def test_tags_and_sql_choose_messages(servers: Servers) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(20):
            tags, size = "abc"[number % 3], {"size": str(number)}
            await producer.send(Message("Chosen", b"%d" % number, tags=tags, properties=size))
    found: dict[str, list[int]] = {"tags": [], "sql": []}
    async with (
        PushConsumer("TagG", servers.address, config=QUICK) as tagged,
        PushConsumer("SqlG", servers.address, config=QUICK) as chosen,
    ):
        tagged.subscribe("Chosen", "a || b")
        chosen.subscribe("Chosen", sql("size > 4 AND size <= 9"))
        tasks = [
            asyncio.create_task(tagged.run(lambda m: found["tags"].append(int(m.body)))),
            asyncio.create_task(chosen.run(lambda m: found["sql"].append(int(m.body)))),
        ]
        await until(lambda: len(found["tags"]) == 14 and len(found["sql"]) == 5)
        await asyncio.gather(tagged.close(), chosen.close())
        await asyncio.gather(*tasks)
    assert sorted(found["sql"]) == [5, 6, 7, 8, 9]
    assert all(number % 3 < 2 for number in found["tags"])


async def test_a_filter_that_cannot_be_read_is_refused_at_the_start(servers: Servers) -> None:
    await fill(servers, "Refused", 1)
    async with PushConsumer("RefG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Refused", sql("size >"))
        for _ in range(2):
            with pytest.raises(BadFilter, match="size >"):
                await consumer.start()
        consumer.subscribe("Refused")
        await consumer.start()
        await until(lambda: sum(each.held for each in consumer.queues) == 1)


async def test_a_handler_that_hangs_has_its_message_taken_away(servers: Servers) -> None:
    await fill(servers, "Hangs", 1)
    config = replace(QUICK, consume_timeout=0.5, await_termination=0.1)
    member = Member(servers, "HG", "Hangs", config=config)
    hung = asyncio.Event()

    async def handle(message: Received) -> None:
        if not message.reconsume_times:
            hung.set()
            await asyncio.Event().wait()

    member.on_message = handle
    await until(lambda: [each.reconsume_times for each in member.seen] == [1])
    assert hung.is_set()
    await member.close()


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_run_that_was_cancelled_goes_on_with_the_message_at_hand(
    servers: Servers, orderly: bool
) -> None:
    topic = f"Cancelled-{orderly}"
    servers.make_topic(topic, 1)
    await fill(servers, topic, 2)
    seen: list[bytes] = []
    hangs = asyncio.Event()

    async def hang(message: Received) -> None:
        hangs.set()
        await asyncio.Event().wait()

    async with PushConsumer(
        f"G-{topic}", servers.address, config=QUICK, orderly=orderly
    ) as consumer:
        consumer.subscribe(topic)
        task = asyncio.create_task(consumer.run(hang, concurrency=1))
        async with asyncio.timeout(SECONDS):
            await hangs.wait()
        task.cancel()
        await asyncio.wait([task])
        task = asyncio.create_task(consumer.run(lambda message: seen.append(message.body)))
        await until(lambda: len(seen) == 2)
        await consumer.close()
        await task
    assert seen == [b"0", b"1"]


async def test_runs_that_are_cancelled_gather_nothing(servers: Servers) -> None:
    servers.make_topic("Quiet", 1)
    async with PushConsumer("G-Quiet", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Quiet")
        await consumer.start()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.run(lambda message: None), 0.01)
        assert not consumer._waiters


async def test_closing_waits_for_handlers_and_commits(servers: Servers) -> None:
    await fill(servers, "Closes", 8)
    member = Member(servers, "CG", "Closes")
    gate = asyncio.Event()
    at_work: list[bytes] = []

    async def handle(message: Received) -> None:
        at_work.append(message.body)
        await gate.wait()

    member.on_message = handle
    await until(lambda: len(at_work) == 8)
    closing = asyncio.create_task(member.close())
    await asyncio.sleep(0)
    gate.set()
    await closing
    after = Member(servers, "CG", "Closes")
    await fill(servers, "Closes", 1, start=8)
    await until(lambda: 8 in numbers(after))
    assert sorted(numbers(member, after)) == list(range(9))
    await after.close()


async def test_a_handler_that_is_ended_leaves_its_queue_to_others(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the lock would keep them waiting for a minute."""
    unlocked: list[str] = []
    unlock = Locks.unlock

    async def noted(locks: Locks, queue: MessageQueue) -> None:
        unlocked.append(queue.topic)
        await unlock(locks, queue)

    monkeypatch.setattr(Locks, "unlock", noted)
    servers.make_topic("Ends", 1)
    await fill(servers, "Ends", 1)
    member = Member(servers, "EndG", "Ends", orderly=True)
    began = asyncio.Event()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    member.on_message = lambda _: hang()
    await began.wait()
    await member.consumer.close(grace=0)
    await asyncio.wait([member.task])
    assert "Ends" in unlocked


@pytest.mark.parametrize("orderly", [False, True])
async def test_nothing_is_lost_when_the_broker_is_killed_in_the_middle(orderly: bool) -> None:
    with run_servers() as servers:
        servers.make_topic("Killed")
        sent: set[int] = set()

        async def send() -> None:
            patient = replace(QUICK, retry_times_when_send_failed=100)
            async with Producer("PG", servers.address, config=patient) as producer:
                for number in range(300):
                    await producer.send(Message("Killed", b"%d" % number))
                    sent.add(number)

        async with AsyncExitStack() as stack:
            members = [Member(servers, "KG", "Killed", orderly=orderly) for _ in range(2)]
            for member in members:
                stack.push_async_callback(member.close)
            sending = asyncio.create_task(_until_done(send, sent))
            await until(lambda: len(sent) > 100)
            await asyncio.to_thread(servers.broker.kill)
            await asyncio.to_thread(servers.broker.start)
            await sending
            await until(lambda: set(numbers(*members)) >= sent)
        assert set(numbers(*members)) >= set(range(300))
        if orderly:
            for member in members:
                assert_in_order(member)


def assert_in_order(member: Member) -> None:
    """Each message of a queue was seen first in the queue's order."""
    found: dict[int, list[int]] = {}
    for message in member.seen:
        offsets = found.setdefault(message.queue.queueId, [])
        if message.queue_offset not in offsets:
            offsets.append(message.queue_offset)
    for offsets in found.values():
        assert offsets == sorted(offsets)


async def _until_done(send: Callable[[], object], sent: set[int]) -> None:
    """Send again from the beginning what was refused while the broker was away."""
    while len(sent) < 300:
        try:
            await send()
        except ClientError:
            await asyncio.sleep(0.1)


async def test_consuming_goes_on_while_the_name_server_is_away_and_after() -> None:
    with run_servers() as servers:
        servers.make_topic("Alone")
        async with Producer("PG", servers.address, config=QUICK) as producer:
            member = Member(servers, "NG", "Alone")
            await producer.send(Message("Alone", b"0"))
            await until(lambda: numbers(member) == [0])
            servers.name_server.kill()
            for number in range(1, 20):
                await producer.send(Message("Alone", b"%d" % number))
            await until(lambda: sorted(numbers(member)) == list(range(20)))
            await asyncio.to_thread(servers.name_server.start)
            with run_mqbroker(name_server=servers.address, brokerName="broker-b") as second:
                make_topic(second, "Alone")
                wanted = {("broker-a", n) for n in range(4)} | {("broker-b", n) for n in range(4)}
                await until(
                    lambda: (
                        {
                            (each.broker, each.queue.queueId)
                            for each in member.consumer.queues
                            if each.topic == "Alone"
                        }
                        >= wanted
                    )
                )
                queues = list[MessageQueue]()
                async with asyncio.timeout(SECONDS):
                    while not queues:
                        await asyncio.sleep(0.1)
                        every = await producer.queues("Alone")
                        queues = [each for each in every if each.brokerName == "broker-b"]
                await producer.send(Message("Alone", b"20"), queue=queues[0])
                await until(lambda: 20 in numbers(member))
                await member.close()


async def test_a_member_that_crashes_leaves_its_queues_to_others(servers: Servers) -> None:
    servers.make_topic("Crashes")
    first, second = (Member(servers, "CrG", "Crashes") for _ in range(2))
    await until(lambda: len(own(first, "Crashes")) == len(own(second, "Crashes")) == 2)
    await first.crash()
    await until(lambda: len(own(second, "Crashes")) == 4)
    await fill(servers, "Crashes", 40)
    await until(lambda: set(numbers(second)) == set(range(40)))
    await second.close()


# --- the blocking one -----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 4])
@pytest.mark.parametrize("orderly", [False, True])
def test_each_message_is_handled_once_and_again_when_it_fails(
    servers: Servers, threads: int, orderly: bool
) -> None:
    topic = f"Blocking-{threads}-{orderly}"
    asyncio.run(fill(servers, topic, 50))
    seen: list[bytes] = []

    def handle(message: Received) -> None:
        if message.body == b"7" and not message.reconsume_times:
            raise RetryLater(delay_level=1)
        seen.append(message.body)
        if len(seen) == 50:
            consumer.stop()

    with blocking.PushConsumer(
        f"G-{topic}", servers.address, config=QUICK, orderly=orderly
    ) as consumer:
        consumer.subscribe(topic)
        with patience(consumer.stop):
            consumer.run(handle, threads=threads)
        assert sum(each.commit_offset for each in consumer.queues if each.topic == topic) == 50
    assert sorted(seen) == sorted(b"%d" % n for n in range(50))


@pytest.mark.parametrize("threads", [0, 2])
def test_a_handler_that_ends_the_program_ends_the_run(servers: Servers, threads: int) -> None:
    topic = f"Exit-{threads}"
    asyncio.run(fill(servers, topic, 1))

    def handle(_: Received) -> None:
        raise SystemExit(topic)

    with blocking.PushConsumer(f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic)
        with patience(consumer.stop), pytest.raises(SystemExit, match=topic):
            consumer.run(handle, threads=threads)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_consumer_that_was_stopped_goes_on_where_it_was(servers: Servers, orderly: bool) -> None:
    topic = f"Again-{orderly}"
    servers.make_topic(topic, 1)
    asyncio.run(fill(servers, topic, 3))
    seen: list[bytes] = []

    def handle(message: Received) -> None:
        seen.append(message.body)
        consumer.stop()

    with blocking.PushConsumer(
        f"G-{topic}", servers.address, config=QUICK, orderly=orderly
    ) as consumer:
        consumer.subscribe(topic)
        for _ in range(3):
            with patience(consumer.stop):
                consumer.run(handle, threads=0)
    assert sorted(seen) == [b"0", b"1", b"2"]  # Java makes queues of its own as it likes


@pytest.mark.parametrize("threads", [0, 2])
def test_one_that_was_stopped_before_it_runs_returns(servers: Servers, threads: int) -> None:
    """As by a SIGTERM that comes while the program begins."""
    with blocking.PushConsumer("G-Before", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Before")
        consumer.stop()
        end = threading.Timer(SECONDS, consumer.stop)
        end.start()
        consumer.run(print, threads=threads)
        assert not end.finished.is_set()
        end.cancel()


def test_batches(servers: Servers) -> None:
    servers.make_topic("Batches", 1)
    asyncio.run(fill(servers, "Batches", 40))
    config = replace(QUICK, consume_message_batch_max_size=8)
    sizes: list[int] = []

    def handle(messages: list[Received]) -> None:
        sizes.append(len(messages))
        if sum(sizes) == 40:
            consumer.stop()

    with blocking.PushConsumer("BaG", servers.address, config=config) as consumer:
        consumer.subscribe("Batches")
        with patience(consumer.stop):
            consumer.run_batches(handle, threads=0)
    assert sum(sizes) == 40
    assert max(sizes) == 8


def test_slow_handlers_do_not_cost_the_membership(servers: Servers) -> None:
    asyncio.run(fill(servers, "SlowBlocking", 2))
    beats: list[int] = []

    def handle(message: Received) -> None:
        (state,) = [s for a, s in consumer.connections.items() if a == servers.broker.rocketmq]
        before = state.requests
        ends = time.monotonic() + SECONDS
        while state.requests == before and time.monotonic() < ends:
            time.sleep(0.05)  # heartbeats and pulls go on in the other thread
        beats.append(state.requests - before)
        if len(beats) == 2:
            consumer.stop()

    with blocking.PushConsumer("SBG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("SlowBlocking")
        with patience(consumer.stop):
            consumer.run(handle, threads=1)
    assert len(beats) == 2
    assert all(beats)


def test_stop_from_another_thread(servers: Servers) -> None:
    with blocking.PushConsumer("StG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Stopped")
        timer = threading.Timer(0.2, consumer.stop)
        timer.start()
        consumer.run(lambda message: None, threads=2)
        timer.join()
