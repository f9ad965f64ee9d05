"""Messages that fail come again: python examples/rocketmq_retries.py 127.0.0.1:9876"""

import asyncio
import sys

from penstock.rocketmq.client import (
    Config,
    Message,
    Producer,
    PushConsumer,
    Received,
    RetryLater,
)


async def main(name_server: str) -> None:
    config = Config(namesrv_addr=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    async with Producer("post", config=config) as producer:
        await producer.send_batch([Message("letters", body) for body in (b"easy", b"unlucky")])

    done = asyncio.Event()

    def deliver(message: Received) -> None:
        if message.body == b"unlucky" and not message.reconsume_times:
            raise RetryLater(delay_level=1)  # in a second; without a level in 10 s, then 30 s ...
        print("delivered", message.body.decode(), "after", message.reconsume_times, "failures")
        if message.body == b"unlucky":
            done.set()

    async with PushConsumer("carriers", config=config) as consumer:
        consumer.subscribe("letters")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.run(deliver))
            await done.wait()
            await consumer.close()


asyncio.run(main(sys.argv[1]))
