"""Send and consume in order: python examples/rocketmq_orders.py 127.0.0.1:9876"""

import asyncio
import sys

from penstock.rocketmq.client import Config, Message, Producer, PushConsumer, Received

STEPS = ("placed", "paid", "shipped")


async def main(name_server: str) -> None:
    config = Config(namesrv_addr=name_server, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    async with Producer("shop", config=config) as producer:
        for step in STEPS:
            for order in ("1", "2"):
                await producer.send(
                    Message("orders", step.encode(), keys=order, sharding_key=order)
                )

    seen: dict[str, list[str]] = {}
    async with PushConsumer("warehouse", config=config, orderly=True) as consumer:
        consumer.subscribe("orders")

        async def handle(message: Received) -> None:
            (order,) = message.keys
            seen.setdefault(order, []).append(message.body.decode())
            if sum(map(len, seen.values())) == 2 * len(STEPS):
                done.set()

        done = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.run(handle))
            await done.wait()
            await consumer.close()
    for order, steps in sorted(seen.items()):
        print("order", order, *steps)


asyncio.run(main(sys.argv[1]))
