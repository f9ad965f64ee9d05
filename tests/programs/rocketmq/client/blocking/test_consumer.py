"""The blocking push consumer with real servers."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.rocketmq.client import Message, Received, RetryLater
from penstock.rocketmq.client.blocking import Producer, PushConsumer
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers, patience


def fill(servers: Servers, topic: str, count: int) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(count):
            producer.send_soon(Message(topic, b"%d" % number))


@pytest.mark.parametrize("threads", [0, 4])
@pytest.mark.parametrize("orderly", [False, True])
def test_each_message_is_handled_once_and_again_when_it_fails(
    servers: Servers, threads: int, orderly: bool
) -> None:
    topic = f"Blocking-{threads}-{orderly}"
    fill(servers, topic, 50)
    seen: list[bytes] = []

    def handle(message: Received) -> None:
        if message.body == b"7" and not message.reconsume_times:
            raise RetryLater(delay_level=1)
        seen.append(message.body)
        if len(seen) == 50:
            consumer.stop()

    with PushConsumer(f"G-{topic}", servers.address, config=QUICK, orderly=orderly) as consumer:
        consumer.subscribe(topic)
        with patience(consumer.stop):
            consumer.run(handle, threads=threads)
        assert sum(each.commit_offset for each in consumer.queues if each.topic == topic) == 50
    assert sorted(seen) == sorted(b"%d" % n for n in range(50))


@pytest.mark.parametrize("threads", [0, 2])
def test_a_handler_that_ends_the_program_ends_the_run(servers: Servers, threads: int) -> None:
    topic = f"Exit-{threads}"
    fill(servers, topic, 1)

    def handle(_: Received) -> None:
        raise SystemExit(topic)

    with PushConsumer(f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic)
        with patience(consumer.stop), pytest.raises(SystemExit, match=topic):
            consumer.run(handle, threads=threads)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_consumer_that_was_stopped_goes_on_where_it_was(servers: Servers, orderly: bool) -> None:
    topic = f"Again-{orderly}"
    servers.make_topic(topic, 1)
    fill(servers, topic, 3)
    seen: list[bytes] = []

    def handle(message: Received) -> None:
        seen.append(message.body)
        consumer.stop()

    with PushConsumer(f"G-{topic}", servers.address, config=QUICK, orderly=orderly) as consumer:
        consumer.subscribe(topic)
        for _ in range(3):
            with patience(consumer.stop):
                consumer.run(handle, threads=0)
    assert sorted(seen) == [b"0", b"1", b"2"]  # Java makes queues of its own as it likes


@pytest.mark.parametrize("threads", [0, 2])
def test_one_that_was_stopped_before_it_runs_returns(servers: Servers, threads: int) -> None:
    """As by a SIGTERM that comes while the program begins."""
    with PushConsumer("G-Before", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Before")
        consumer.stop()
        end = threading.Timer(SECONDS, consumer.stop)
        end.start()
        consumer.run(print, threads=threads)
        assert not end.finished.is_set()
        end.cancel()


def test_batches(servers: Servers) -> None:
    from dataclasses import replace

    servers.make_topic("Batches", 1)
    fill(servers, "Batches", 40)
    config = replace(QUICK, consume_message_batch_max_size=8)
    sizes: list[int] = []

    def handle(messages: list[Received]) -> None:
        sizes.append(len(messages))
        if sum(sizes) == 40:
            consumer.stop()

    with PushConsumer("BaG", servers.address, config=config) as consumer:
        consumer.subscribe("Batches")
        with patience(consumer.stop):
            consumer.run_batches(handle, threads=0)
    assert sum(sizes) == 40
    assert max(sizes) == 8


def test_slow_handlers_do_not_cost_the_membership(servers: Servers) -> None:
    fill(servers, "SlowBlocking", 2)
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

    with PushConsumer("SBG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("SlowBlocking")
        with patience(consumer.stop):
            consumer.run(handle, threads=1)
    assert len(beats) == 2
    assert all(beats)


def test_stop_from_another_thread(servers: Servers) -> None:
    with PushConsumer("StG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("Stopped")
        timer = threading.Timer(0.2, consumer.stop)
        timer.start()
        consumer.run(lambda message: None, threads=2)
        timer.join()
