"""The push consumers with real servers: what is acknowledged is seen, whatever happens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

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

Handle: TypeAlias = Callable[[Received], object]


async def fill(servers: Servers, topic: str, count: int, start: int = 0, queues: int = 4) -> None:
    """Send ``count`` numbers, in order in each queue: of several that are under way together, a
    Java broker may store the later one first.
    """
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(start, start + count):
            message = Message(topic, b"%d" % number)
            await producer.send(message, queue=lambda every, n=number: every[n % len(every)])


class Member:
    """A consumer at work, and what it has seen; of the group that is named for the topic."""

    def __init__(
        self, servers: Servers, topic: str, on_message: Handle = lambda _: None, **more: Any
    ) -> None:
        self.topic = topic
        made = {"config": QUICK, **more}
        self.consumer = PushConsumer(f"G-{topic}", servers.address, **made)
        self.consumer.subscribe(topic)
        self.seen: list[Received] = []
        self._on_message = on_message
        self.task = asyncio.create_task(self.consumer.run(self._handle, concurrency=8))

    async def _handle(self, message: Received) -> None:
        found = self._on_message(message)
        if asyncio.iscoroutine(found):
            await found
        self.seen.append(message)

    @property
    def numbers(self) -> list[int]:
        return [int(message.body) for message in self.seen]

    @property
    def own(self) -> set[int]:
        """The queues that it has."""
        return {each.queue.queueId for each in self.consumer.queues if each.topic == self.topic}

    async def __aenter__(self) -> Member:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.consumer.close()
        await self.task

    async def crash(self) -> None:
        """Go without a word."""
        self.consumer._hub.close()
        self.task.cancel()
        await asyncio.wait([self.task])


class Hanging:
    """A handler that is at work until its gate is opened."""

    def __init__(self) -> None:
        self.at_work: list[bytes] = []
        self.gate = asyncio.Event()

    async def __call__(self, message: Received) -> None:
        self.at_work.append(message.body)
        await self.gate.wait()


async def test_the_members_of_a_group_share_queues_and_skip_nothing(
    servers: Servers, topic: str
) -> None:
    servers.make_topic(topic, 8)
    await fill(servers, topic, 100)
    first = Member(servers, topic)
    await until(lambda: len(first.own) == 8)
    async with Member(servers, topic) as second:
        await until(lambda: len(first.own) == len(second.own) == 4)
        assert not first.own & second.own
        await fill(servers, topic, 100, start=100)
        await until(lambda: {*first.numbers, *second.numbers} == {*range(200)})
        await first.close()
        await until(lambda: len(second.own) == 8)
        await fill(servers, topic, 100, start=200)
        await until(lambda: {*first.numbers, *second.numbers} == {*range(300)})


async def test_one_queue_is_reset_while_a_member_is_at_work(servers: Servers, topic: str) -> None:
    """As 5.3's ``mqadmin resetOffsetByTime -q 0 -o 15`` does it: a commit, then the reset."""
    servers.make_topic(topic, 4)
    await fill(servers, topic, 80)
    async with Member(servers, topic) as member:
        await until(lambda: len(member.seen) == 80)
        await until(lambda: sum(each.held for each in member.consumer.queues) == 0)
        member.seen.clear()
        if isinstance(servers.broker, MqBroker):  # Java's waits for a pull of the queue
            reset_one(servers.broker.rocketmq, topic, queue=0, offset=15)
            await until(lambda: len(member.seen) == 5)
            await fill(servers, topic, 4, start=80)
            await until(lambda: 83 in member.numbers)
            counts = Counter(message.queue.queueId for message in member.seen)
            assert counts == {0: 6, 1: 1, 2: 1, 3: 1}


def reset_one(broker: str, topic: str, queue: int, offset: int) -> None:
    """Reset one queue of a topic's group."""
    at = {"topic": topic, "queueId": queue}
    commit = {**at, "consumerGroup": f"G-{topic}", "commitOffset": offset}
    reset = {**at, "group": f"G-{topic}", "timestamp": 0, "isForce": "false", "offset": offset}
    link = RemotingLink(broker, SECONDS)
    link.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    answer = link.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
    link.close()
    assert answer.code == 0, answer.remark


async def test_orderly_consumption_sees_no_inversion_while_members_come_and_go(
    servers: Servers, topic: str
) -> None:
    servers.make_topic(topic)
    seen: list[Received] = []
    busy: Counter[int] = Counter()

    async def handle(message: Received) -> None:
        queue = message.queue.queueId
        busy[queue] += 1
        assert busy[queue] == 1, "two members handle one queue"
        await asyncio.sleep(0.001)
        seen.append(message)
        busy[queue] -= 1
        if int(message.body) % 17 == 3 and message.reconsume_times == 0:
            raise RetryLater

    members = [Member(servers, topic, handle, orderly=True)]
    for turn in range(4):
        await fill(servers, topic, 60, start=60 * turn)
        if turn % 2 == 0:
            members.append(Member(servers, topic, handle, orderly=True))
        else:
            await members.pop(0).close()
        everything = {*range(60 * (turn + 1))}
        # A lock whose owner is gone ends after a minute, at Java's broker as at ours.
        await until(lambda all_=everything: {int(each.body) for each in seen} == all_, 2 * SECONDS)
    for each in members:
        await each.close()
    assert_in_order(seen)


def assert_in_order(seen: list[Received]) -> None:
    """Each message of a queue was seen first in the queue's order."""
    found: dict[int, list[int]] = {}
    for message in seen:
        offsets = found.setdefault(message.queue.queueId, [])
        if message.queue_offset not in offsets:
            offsets.append(message.queue_offset)
    for offsets in found.values():
        assert offsets == sorted(offsets)


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
    tried: list[tuple[int, str]] = []

    def handle(message: Received) -> None:
        if message.body == b"1":
            tried.append((message.reconsume_times, message.topic))
            raise error

    config = replace(QUICK, max_reconsume_times=most)
    async with (
        Member(servers, topic, handle, orderly=orderly, config=config) as member,
        LitePullConsumer(f"Dead-{topic}", servers.address, config=QUICK) as dead,
    ):
        await until(lambda: len(tried) == len(tries) and len(member.seen) == 3)
        assert (member.numbers if orderly else sorted(member.numbers)) == [0, 2, 3]
        dead.subscribe(f"%DLQ%G-{topic}")
        assert [letter.body for letter in await dead.poll(timeout=60)] == [b"1"]
    assert tried == [(count, topic) for count in tries]


async def test_each_broadcast_member_has_every_message(
    servers: Servers, topic: str, tmp_path: Path
) -> None:
    await fill(servers, topic, 20)

    def member(name: str) -> Member:
        config = replace(QUICK, message_model="BROADCASTING", instance_name=name,
                         offset_store_path=str(tmp_path))  # fmt: skip
        return Member(servers, topic, config=config)

    async with member("a") as first, member("b") as second:
        for each in (first, second):
            await until(lambda each=each: sorted(each.numbers) == [*range(20)])
    await fill(servers, topic, 1, start=20)
    async with member("b") as again:
        await until(lambda: again.numbers == [20])


async def test_tags_and_sql_choose_messages(servers: Servers, topic: str) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(20):
            tags, size = "abc"[number % 3], {"size": str(number)}
            await producer.send(Message(topic, b"%d" % number, tags=tags, properties=size))
    for wanted, chosen in (
        ("a || b", [number for number in range(20) if number % 3 < 2]),
        (sql("size > 4 AND size <= 9"), [5, 6, 7, 8, 9]),
    ):
        found: list[int] = []
        group = f"G-{len(chosen)}-{topic}"
        async with PushConsumer(group, servers.address, config=QUICK) as consumer:
            consumer.subscribe(topic, wanted)
            task = asyncio.create_task(
                consumer.run(lambda message, found=found: found.append(int(message.body)))
            )
            await until(lambda found=found, chosen=chosen: len(found) == len(chosen))
            await consumer.close()
            await task
        assert sorted(found) == chosen


async def test_a_filter_that_cannot_be_read_is_refused_at_the_start(
    servers: Servers, topic: str
) -> None:
    await fill(servers, topic, 1)
    async with PushConsumer(f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic, sql("size >"))
        for _ in range(2):
            with pytest.raises(BadFilter, match="size >"):
                await consumer.start()
        consumer.subscribe(topic)
        await consumer.start()
        await until(lambda: sum(each.held for each in consumer.queues) == 1)


async def test_a_handler_that_hangs_has_its_message_taken_away(
    servers: Servers, topic: str
) -> None:
    await fill(servers, topic, 1)
    hang = Hanging()

    async def handle(message: Received) -> None:
        if not message.reconsume_times:
            await hang(message)

    config = replace(QUICK, consume_timeout=0.5, await_termination=0.1)
    async with Member(servers, topic, handle, config=config) as member:
        await until(lambda: [each.reconsume_times for each in member.seen] == [1])
        assert hang.at_work == [b"0"]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_run_that_was_cancelled_goes_on_with_the_message_at_hand(
    servers: Servers, topic: str, orderly: bool
) -> None:
    servers.make_topic(topic, 1)
    await fill(servers, topic, 2)
    seen: list[bytes] = []
    hang = Hanging()
    made = PushConsumer(f"G-{topic}", servers.address, config=QUICK, orderly=orderly)
    async with made as consumer:
        consumer.subscribe(topic)
        task = asyncio.create_task(consumer.run(hang, concurrency=1))
        await until(lambda: bool(hang.at_work))
        task.cancel()
        await asyncio.wait([task])
        task = asyncio.create_task(consumer.run(lambda message: seen.append(message.body)))
        await until(lambda: len(seen) == 2)
        await consumer.close()
        await task
    assert seen == [b"0", b"1"]


async def test_runs_that_are_cancelled_gather_nothing(servers: Servers, topic: str) -> None:
    servers.make_topic(topic, 1)
    async with PushConsumer(f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic)
        await consumer.start()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.run(lambda message: None), 0.01)
        assert not consumer._waiters


async def test_closing_waits_for_handlers_and_commits(servers: Servers, topic: str) -> None:
    await fill(servers, topic, 8)
    hang = Hanging()
    member = Member(servers, topic, hang)
    await until(lambda: len(hang.at_work) == 8)
    closing = asyncio.create_task(member.close())
    await asyncio.sleep(0)
    hang.gate.set()
    await closing
    async with Member(servers, topic) as after:
        await fill(servers, topic, 1, start=8)
        await until(lambda: 8 in after.numbers)
        seen = member.seen + after.seen
        assert {int(each.body) for each in seen} == {*range(9)}
        # By place: a slow broker may have stored a message twice, as its producer sent it again.
        places = [(each.queue.queueId, each.queue_offset) for each in seen]
        assert len(set(places)) == len(places)


async def test_a_handler_that_is_ended_leaves_its_queue_to_others(
    servers: Servers, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the lock would keep them waiting for a minute."""
    unlocked: list[str] = []
    unlock = Locks.unlock

    async def noted(locks: Locks, queue: MessageQueue) -> None:
        unlocked.append(queue.topic)
        await unlock(locks, queue)

    monkeypatch.setattr(Locks, "unlock", noted)
    servers.make_topic(topic, 1)
    await fill(servers, topic, 1)
    hang = Hanging()
    member = Member(servers, topic, hang, orderly=True)
    await until(lambda: bool(hang.at_work))
    await member.consumer.close(grace=0)
    await asyncio.wait([member.task])
    assert topic in unlocked


@pytest.mark.parametrize("orderly", [False, True])
async def test_nothing_is_lost_when_the_broker_is_killed_in_the_middle(orderly: bool) -> None:
    sent: set[int] = set()

    async def send(servers: Servers) -> None:
        """Again from the beginning, where a send is refused while the broker is away."""
        patient = replace(QUICK, retry_times_when_send_failed=100)
        while len(sent) < 300:
            with suppress(ClientError):
                async with Producer("PG", servers.address, config=patient) as producer:
                    for number in range(300):
                        await producer.send(Message("Killed", b"%d" % number))
                        sent.add(number)
            await asyncio.sleep(0.1)

    with run_servers() as servers:
        servers.make_topic("Killed")
        async with (
            Member(servers, "Killed", orderly=orderly) as first,
            Member(servers, "Killed", orderly=orderly) as second,
        ):
            sending = asyncio.create_task(send(servers))
            await until(lambda: len(sent) > 100)
            await asyncio.to_thread(servers.broker.kill)
            await asyncio.to_thread(servers.broker.start)
            await sending
            await until(lambda: {*first.numbers, *second.numbers} >= {*range(300)})
    for member in (first, second) if orderly else ():
        assert_in_order(member.seen)


async def test_consuming_goes_on_while_the_name_server_is_away_and_after() -> None:
    with run_servers() as servers:
        servers.make_topic("Alone")
        async with (
            Producer("PG", servers.address, config=QUICK) as producer,
            Member(servers, "Alone") as member,
        ):
            await producer.send(Message("Alone", b"0"))
            await until(lambda: member.numbers == [0])
            servers.name_server.kill()
            for number in range(1, 20):
                await producer.send(Message("Alone", b"%d" % number))
            await until(lambda: sorted(member.numbers) == [*range(20)])
            await asyncio.to_thread(servers.name_server.start)
            with run_mqbroker(name_server=servers.address, brokerName="broker-b") as second:
                make_topic(second, "Alone")
                queues = list[MessageQueue]()
                async with asyncio.timeout(SECONDS):
                    while not queues:
                        await asyncio.sleep(0.1)
                        every = await producer.queues("Alone")
                        queues = [each for each in every if each.brokerName == "broker-b"]
                wanted = {
                    MessageQueue(f"broker-{name}", n, "Alone") for name in "ab" for n in range(4)
                }
                await until(lambda: {each.queue for each in member.consumer.queues} >= wanted)
                await producer.send(Message("Alone", b"20"), queue=queues[0])
                await until(lambda: 20 in member.numbers)


async def test_a_member_that_crashes_leaves_its_queues_to_others(
    servers: Servers, topic: str
) -> None:
    servers.make_topic(topic)
    first = Member(servers, topic)
    async with Member(servers, topic) as second:
        await until(lambda: len(first.own) == len(second.own) == 2)
        await first.crash()
        await until(lambda: len(second.own) == 4)
        await fill(servers, topic, 40)
        await until(lambda: {*second.numbers} == {*range(40)})


# --- the blocking one -----------------------------------------------------------------------------


@contextmanager
def consuming(servers: Servers, topic: str, **more: Any) -> Iterator[blocking.PushConsumer]:
    """A blocking consumer; a test that waits for it in vain fails rather than hangs."""
    made = {"config": QUICK, **more}
    with (
        blocking.PushConsumer(f"G-{topic}", servers.address, **made) as consumer,
        patience(consumer.stop),
    ):
        consumer.subscribe(topic)
        yield consumer


@pytest.mark.parametrize("threads", [0, 4])
@pytest.mark.parametrize("orderly", [False, True])
def test_each_message_is_handled_once_and_again_when_it_fails(
    servers: Servers, topic: str, threads: int, orderly: bool
) -> None:
    asyncio.run(fill(servers, topic, 50))
    seen: list[bytes] = []

    def handle(message: Received) -> None:
        if message.body == b"7" and not message.reconsume_times:
            raise RetryLater(delay_level=1)
        seen.append(message.body)
        if len(seen) == 50:
            consumer.stop()

    with consuming(servers, topic, orderly=orderly) as consumer:
        consumer.run(handle, threads=threads)
        assert sum(each.commit_offset for each in consumer.queues if each.topic == topic) == 50
    assert sorted(map(int, seen)) == [*range(50)]


@pytest.mark.parametrize("threads", [0, 2])
def test_a_handler_that_ends_the_program_ends_the_run(
    servers: Servers, topic: str, threads: int
) -> None:
    asyncio.run(fill(servers, topic, 1))

    def handle(_: Received) -> None:
        raise SystemExit(topic)

    with consuming(servers, topic) as consumer, pytest.raises(SystemExit, match=topic):
        consumer.run(handle, threads=threads)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_consumer_that_was_stopped_goes_on_where_it_was(
    servers: Servers, topic: str, orderly: bool
) -> None:
    servers.make_topic(topic, 1)
    asyncio.run(fill(servers, topic, 3))
    seen: list[bytes] = []

    def handle(message: Received) -> None:
        seen.append(message.body)
        consumer.stop()

    with consuming(servers, topic, orderly=orderly) as consumer:
        for _ in range(3):
            consumer.run(handle, threads=0)
    assert sorted(seen) == [b"0", b"1", b"2"]  # Java makes queues of its own as it likes


@pytest.mark.parametrize("threads", [0, 2])
def test_one_that_was_stopped_before_it_runs_returns(
    servers: Servers, topic: str, threads: int
) -> None:
    """As by a SIGTERM that comes while the program begins."""
    with consuming(servers, topic) as consumer:
        consumer.stop()
        end = threading.Timer(SECONDS, consumer.stop)
        end.start()
        consumer.run(print, threads=threads)
        assert not end.finished.is_set()
        end.cancel()


def test_batches(servers: Servers, topic: str) -> None:
    servers.make_topic(topic, 1)
    asyncio.run(fill(servers, topic, 40))
    sizes: list[int] = []

    def handle(messages: list[Received]) -> None:
        sizes.append(len(messages))
        if sum(sizes) == 40:
            consumer.stop()

    config = replace(QUICK, consume_message_batch_max_size=8)
    with consuming(servers, topic, config=config) as consumer:
        consumer.run_batches(handle, threads=0)
    assert (sum(sizes), max(sizes)) == (40, 8)


def test_slow_handlers_do_not_cost_the_membership(servers: Servers, topic: str) -> None:
    asyncio.run(fill(servers, topic, 2))
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

    with consuming(servers, topic) as consumer:
        consumer.run(handle, threads=1)
    assert len(beats) == 2
    assert all(beats)


def test_stop_from_another_thread(servers: Servers, topic: str) -> None:
    with consuming(servers, topic) as consumer:
        timer = threading.Timer(0.2, consumer.stop)
        timer.start()
        consumer.run(lambda message: None, threads=2)
        timer.join()
