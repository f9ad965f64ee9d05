"""Consume message by message: python examples/consume.py 127.0.0.1:4150"""

import asyncio
import sys

from penstock.nsq.client import Config, Consumer, Producer


async def main(address: str) -> None:
    async with Producer(address) as producer:
        await producer.multi_publish("orders", [b"tea", b"coffee", b"last"])

    config = Config(max_in_flight=100)
    async with Consumer(
        "orders", "billing", nsqd_tcp_addresses=[address], config=config
    ) as consumer:
        async for message in consumer:
            print(message.body.decode(), "attempt", message.attempts)
            message.finish()
            if message.body == b"last":
                break


asyncio.run(main(sys.argv[1]))
