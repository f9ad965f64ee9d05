"""Publish to whichever node is there: python examples/several_nodes.py 127.0.0.1:4150 127.0.0.1:1

A publish whose node cannot be reached goes on to another; nothing is raised while one is left.
"""

import asyncio
import sys

from penstock.nsq.client import Config, Producer


async def main(*addresses: str) -> None:
    config = Config(dial_timeout=0.5)
    async with Producer(*addresses, config=config, mode="hostpool") as producer:
        for n in range(10):
            await producer.publish("example", b"%d" % n)
        for address, node in producer.connections.items():
            print(address, "is dead:" if node.is_dead else "is well", node.error or "")


asyncio.run(main(*sys.argv[1:]))
