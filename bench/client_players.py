"""One client library doing one job, in a process of its own: `client_libraries.py` starts them.

    python bench/client_players.py LIBRARY JOB ADDRESS COUNT WIDTH

prints the messages a second. WIDTH is how many publishes are in flight, how many messages are in
one multi-publish, or max_in_flight. All libraries that run on asyncio do so on uvloop.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

TOPIC, CHANNEL = "bench", "bench"
BODY = b"x" * 200
HEARTBEAT_S = 10

Job = Callable[[str, int, int], Coroutine[Any, Any, float]]


async def side_by_side(
    publish: Callable[[], Coroutine[Any, Any, Any]], count: int, width: int
) -> float:
    """Seconds for so many publishes, `width` of them in flight at any time."""
    each = count // width

    async def work() -> None:
        for _ in range(each):
            await publish()

    start = time.monotonic()
    await asyncio.gather(*(work() for _ in range(width)))
    return time.monotonic() - start


async def penstock_single(address: str, count: int, width: int) -> float:
    from penstock.nsq.client import Producer

    async with Producer(address, max_pending=width) as producer:
        await producer.ping()
        return await side_by_side(lambda: producer.publish(TOPIC, BODY), count, width)


async def penstock_soon(address: str, count: int, width: int) -> float:
    from penstock.nsq.client import Producer

    async with Producer(address, max_pending=width) as producer:
        await producer.ping()
        start = time.monotonic()
        for _ in range(count):
            await producer.publish_soon(TOPIC, BODY)
        await producer.flush()
        return time.monotonic() - start


async def penstock_multi(address: str, count: int, width: int) -> float:
    from penstock.nsq.client import Producer

    bodies = [BODY] * width
    async with Producer(address, max_pending=100 * width) as producer:
        await producer.ping()
        rounds = count // width
        return await side_by_side(lambda: producer.multi_publish(TOPIC, bodies), rounds, 4)


async def penstock_consume(address: str, count: int, width: int) -> float:
    from penstock.nsq.client import Config, Consumer

    config = Config(max_in_flight=width)
    async with Consumer(TOPIC, CHANNEL, nsqd_tcp_addresses=[address], config=config) as consumer:
        left, start = count, 0.0
        async for message in consumer:
            start = start or time.monotonic()
            message.finish()
            left -= 1
            if not left:
                break
        return time.monotonic() - start


async def penstock_deliveries(address: str, count: int, width: int) -> float:
    from penstock.nsq.client import Config, Consumer

    config = Config(max_in_flight=width)
    async with Consumer(TOPIC, CHANNEL, nsqd_tcp_addresses=[address], config=config) as consumer:
        left, start = count, 0.0
        async for delivery in consumer.deliveries():
            start = start or time.monotonic()
            left -= len(delivery.bodies())
            delivery.finish()
            if left <= 0:
                break
        return time.monotonic() - start


async def pynsq_writer(address: str) -> Any:
    import nsq

    writer = nsq.Writer([address], heartbeat_interval=HEARTBEAT_S)
    while not writer.conns:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    return writer


def pynsq_asker(command: Callable[..., None], argument: Any) -> Callable[[], Any]:
    def ask() -> asyncio.Future[Any]:
        done = asyncio.get_running_loop().create_future()
        command(TOPIC, argument, callback=lambda _, data: done.set_result(data))
        return done

    async def publish() -> None:
        if (answer := await ask()) != b"OK":
            raise RuntimeError(f"pynsq: {answer!r}")

    return publish


async def pynsq_single(address: str, count: int, width: int) -> float:
    writer = await pynsq_writer(address)
    return await side_by_side(pynsq_asker(writer.pub, BODY), count, width)


async def pynsq_multi(address: str, count: int, width: int) -> float:
    writer = await pynsq_writer(address)
    return await side_by_side(pynsq_asker(writer.mpub, [BODY] * width), count // width, 4)


async def pynsq_consume(address: str, count: int, width: int) -> float:
    import nsq

    left, start = count, 0.0
    done = asyncio.Event()

    def handle(_: Any) -> bool:
        nonlocal left, start
        start = start or time.monotonic()
        left -= 1
        if not left:
            done.set()
        return True

    nsq.Reader(TOPIC, CHANNEL, message_handler=handle, nsqd_tcp_addresses=[address],
               max_in_flight=width, heartbeat_interval=HEARTBEAT_S)  # fmt: skip
    await done.wait()
    return time.monotonic() - start


async def ansq_single(address: str, count: int, width: int) -> float:
    import ansq

    writer = await ansq.create_writer(nsqd_tcp_addresses=[address])
    seconds = await side_by_side(lambda: writer.pub(TOPIC, BODY), count, width)
    await writer.close()
    return seconds


async def ansq_multi(address: str, count: int, width: int) -> float:
    import ansq

    writer = await ansq.create_writer(nsqd_tcp_addresses=[address])
    bodies = [BODY] * width
    seconds = await side_by_side(lambda: writer.mpub(TOPIC, *bodies), count // width, 4)
    await writer.close()
    return seconds


async def ansq_consume(address: str, count: int, width: int) -> float:
    import ansq

    reader = await ansq.create_reader(topic=TOPIC, channel=CHANNEL, nsqd_tcp_addresses=[address])
    for connection in reader.connections:  # it has no max_in_flight of its own: RDY is 1
        await connection.rdy(width)
    left, start = count, 0.0
    async for message in reader.messages():
        start = start or time.monotonic()
        await message.fin()
        left -= 1
        if not left:
            break
    return time.monotonic() - start


def gnsq_side_by_side(publish: Callable[[], Any], count: int, width: int) -> float:
    import gevent

    each = count // width

    def work() -> None:
        for _ in range(each):
            publish()

    start = time.monotonic()
    gevent.joinall([gevent.spawn(work) for _ in range(width)], raise_error=True)
    return time.monotonic() - start


def gnsq_producer(address: str) -> Any:
    import gnsq

    producer = gnsq.Producer([address])
    producer.start()
    return producer


def gnsq_single(address: str, count: int, width: int) -> float:
    producer = gnsq_producer(address)
    return gnsq_side_by_side(lambda: producer.publish(TOPIC, BODY), count, width)


def gnsq_multi(address: str, count: int, width: int) -> float:
    producer, bodies = gnsq_producer(address), [BODY] * width
    return gnsq_side_by_side(lambda: producer.multipublish(TOPIC, bodies), count // width, 4)


def gnsq_consume(address: str, count: int, width: int) -> float:
    import gevent.event
    import gnsq

    left, start = count, 0.0
    done = gevent.event.Event()
    consumer = gnsq.Consumer(TOPIC, CHANNEL, nsqd_tcp_addresses=[address], max_in_flight=width)

    def handle(_: Any, message: Any) -> None:
        nonlocal left, start
        start = start or time.monotonic()
        left -= 1
        if not left:
            done.set()

    consumer.on_message.connect(handle)
    consumer.start(block=False)
    done.wait()
    return time.monotonic() - start


def main() -> None:
    library, job, address, count, width = sys.argv[1:]
    if library == "gnsq":
        from gevent import monkey

        monkey.patch_all()
        seconds = globals()[f"gnsq_{job}"](address, int(count), int(width))
    else:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seconds = runner.run(globals()[f"{library}_{job}"](address, int(count), int(width)))
    print(int(count) / seconds, flush=True)


if __name__ == "__main__":
    main()
