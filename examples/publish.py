"""Publish in every way there is: python examples/publish.py 127.0.0.1:4150"""

import asyncio
import sys

from penstock.nsq.client import Producer


async def main(address: str) -> None:
    async with Producer(address) as producer:
        await producer.publish("example", b"one")
        await producer.multi_publish("example", [b"two", b"three"])
        await producer.deferred_publish("example", 0.5, b"in half a second")
        for n in range(1000):  # does not wait for each answer ...
            await producer.publish_soon("example", b"%d" % n)
        await producer.flush()  # ... but for all of them here; the first error would be raised
    print("published 1004 messages")


asyncio.run(main(sys.argv[1]))
