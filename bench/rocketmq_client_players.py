"""One RocketMQ client doing one job in a process; `rocketmq_clients.py` starts them.

    python bench/rocketmq_client_players.py LIBRARY JOB NAME_SERVER COUNT

prints the messages a second, and the microseconds of processor time for each.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

TOPIC, GROUP = "ClientBench", "client-bench"
BODY = b"x" * 200
BATCH = 100
SECONDS = 60.0


def config(name_server: str):  # type: ignore[no-untyped-def]
    from penstock.rocketmq.client import Config

    return Config(
        namesrv_addr=name_server,
        send_msg_timeout=SECONDS,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        consume_message_batch_max_size=32,
    )


def penstock_sync(name_server: str, count: int) -> float:
    from penstock.rocketmq.client import Message
    from penstock.rocketmq.client.blocking import Producer

    with Producer(GROUP, config=config(name_server)) as producer:
        producer.send(Message(TOPIC, BODY))
        start = time.monotonic()
        for _ in range(count):
            producer.send(Message(TOPIC, BODY))
        return time.monotonic() - start


def penstock_pipelined(name_server: str, count: int) -> float:
    return asyncio.run(_pipelined(name_server, count))


async def _pipelined(name_server: str, count: int) -> float:
    from penstock.rocketmq.client import Message, Producer

    async with Producer(GROUP, config=config(name_server)) as producer:
        await producer.send(Message(TOPIC, BODY))
        start = time.monotonic()
        for _ in range(count):
            await producer.send_soon(Message(TOPIC, BODY))
        await producer.flush()
        return time.monotonic() - start


def penstock_batch(name_server: str, count: int) -> float:
    from penstock.rocketmq.client import Message
    from penstock.rocketmq.client.blocking import Producer

    with Producer(GROUP, config=config(name_server)) as producer:
        producer.send(Message(TOPIC, BODY))
        start = time.monotonic()
        for _ in range(count // BATCH):
            producer.send_batch([Message(TOPIC, BODY) for _ in range(BATCH)])
        return time.monotonic() - start


def penstock_consume(name_server: str, count: int) -> float:
    from penstock.rocketmq.client import Received
    from penstock.rocketmq.client.blocking import PushConsumer

    taken, began = 0, 0.0

    def handle(messages: list[Received]) -> None:
        nonlocal taken, began
        began = began or time.monotonic()
        taken += len(messages)
        if taken >= count:
            consumer.stop()

    with PushConsumer(GROUP, config=config(name_server)) as consumer:
        consumer.subscribe(TOPIC)
        consumer.run_batches(handle, threads=0)
        return time.monotonic() - began


def cpp_sync(name_server: str, count: int) -> float:
    from rocketmq.client import Message, Producer

    producer = Producer(GROUP)
    producer.set_namesrv_addr(name_server)
    producer.start()

    def send() -> None:
        message = Message(TOPIC)
        message.set_body(BODY)
        producer.send_sync(message)

    send()
    start = time.monotonic()
    for _ in range(count):
        send()
    took = time.monotonic() - start
    producer.shutdown()
    return took


def cpp_consume(name_server: str, count: int) -> float:
    from rocketmq.client import PushConsumer

    taken, began = 0, 0.0
    done = threading.Event()

    def handle(_: object) -> None:
        nonlocal taken, began
        began = began or time.monotonic()
        taken += 1
        if taken >= count:
            done.set()

    consumer = PushConsumer(GROUP)
    consumer.set_namesrv_addr(name_server)
    consumer.subscribe(TOPIC, handle)
    consumer.start()
    assert done.wait(2 * SECONDS)
    took = time.monotonic() - began
    consumer.shutdown()
    return took


PLAYS: dict[tuple[str, str], Callable[[str, int], float]] = {
    ("penstock", "sync"): penstock_sync,
    ("penstock", "pipelined"): penstock_pipelined,
    ("penstock", "batch"): penstock_batch,
    ("penstock", "consume"): penstock_consume,
    ("cpp", "sync"): cpp_sync,
    ("cpp", "consume"): cpp_consume,
}


def main() -> None:
    library, job, name_server, count = *sys.argv[1:4], int(sys.argv[4])
    took = PLAYS[library, job](name_server, count)
    processor = sum(os.times()[:2])
    print(f"{count / took:.0f} {processor / count * 1e6:.1f}", flush=True)
    os._exit(0)  # the C++ library may crash in its destructors


if __name__ == "__main__":
    main()
