"""A handler that fails now and then; the consumer requeues and slows down:
python examples/handler.py 127.0.0.1:4150"""

import asyncio
import logging
import sys

from penstock.nsq.client import Config, Consumer, Message, Producer

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)


async def main(address: str) -> None:
    async with Producer(address) as producer:
        await producer.multi_publish("jobs", [b"1", b"2", b"unlucky"])

    done = 0
    config = Config(max_in_flight=10, default_requeue_delay=0.05, backoff_multiplier=0.05)
    consumer = Consumer("jobs", "workers", nsqd_tcp_addresses=[address], config=config)

    async def handle(message: Message) -> None:
        nonlocal done
        if message.body == b"unlucky" and message.attempts == 1:
            raise RuntimeError("the first attempt always fails")  # requeued, with backoff
        print("handled", message.body.decode(), "at attempt", message.attempts)
        done += 1  # returning finishes the message
        if done == 3:
            asyncio.get_running_loop().call_soon(stopping.set)

    stopping = asyncio.Event()
    async with consumer, asyncio.TaskGroup() as group:
        group.create_task(consumer.run(handle, concurrency=4))
        await stopping.wait()
        await consumer.close()


asyncio.run(main(sys.argv[1]))
