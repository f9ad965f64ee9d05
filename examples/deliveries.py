"""Consume what arrived together, together, the quick way:
python examples/deliveries.py 127.0.0.1:4150"""

import asyncio
import sys

from penstock.nsq.client import Config, Consumer, Producer

COUNT = 5000


async def main(address: str) -> None:
    async with Producer(address) as producer:
        await producer.multi_publish("numbers", [b"%d" % n for n in range(COUNT)])

    config = Config(max_in_flight=2500)
    left, total = COUNT, 0
    async with Consumer("numbers", "sum", nsqd_tcp_addresses=[address], config=config) as consumer:
        async for delivery in consumer.deliveries():
            total += sum(map(int, delivery.bodies()))
            left -= len(delivery)
            delivery.finish()  # one write, however many messages
            if not left:
                break
    print("the sum is", total)


asyncio.run(main(sys.argv[1]))
