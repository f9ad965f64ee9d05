"""Something to look at: producers and consumers of a small shop, over three nodes.

    python -m tools.browser.traffic --lookupd HOST:PORT --nsqd TCP,HTTP (3 times) --rocketmq PORT

Prints `ready` when every topic and channel is there, and ends when its standard input is closed, at
the latest after `--seconds`. About 150 messages a second; what there is:

| topic | nodes | channels |
|---|---|---|
| `orders` (JSON) | all | `billing`: keeps up. `shipping`: requeues, times out. `audit#ephemeral` |
| `clicks` (lines of text) | 0, 1 | `archive`: nobody consumes it. `live`: sampled, snappy |
| `payments` (JSON) | 0, 2 | `ledger`: one attempt each, what fails goes to `payments.dead` |
| `reminders` | 1 | `mailer`: deferred messages, for seconds and for most of an hour |
| `sensors` (binary) | 2 | `alarms`: paused |
| `notes` | 0 | `reader`: the bodies of `NOTES`, which nobody consumes |
| `prices` (RocketMQ, two queues) | 2 | the group `traders`, which lags |
| `retired` | none | known to the nsqlookupd alone |

The log of `orders` on node 0 has a group `warehouse`, which commits every second. The pipeline
`order-metrics` tells node 0 every second that it reads for it, `clicks-archive` runs without it,
and `order-hooks` has failed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from penstock.net.http.client.once import request
from penstock.nsq.client import Config, Consumer, Message, Producer
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from tools.loads.rocketmq_client import Connection

SECONDS_MAX = 3600.0
TURN_S = 0.1
NOTES = (
    b"plain text",
    b'{"kind": "json", "list": [1, 2.5, null, true], "nested": {"a": {"b": "c"}}}',
    b"\x00\x01\x02\xfe\xff binary",
    "Grüße, 世界, \N{ROCKET}".encode(),
    b"<script>document.title = 'broken in'</script><img src=x onerror=\"alert(1)\">",
    b"long " * 1000,
)
"""The bodies of `notes`, from the oldest on."""
QUEUES = 2
_HTTP_S = 30.0


class Node(NamedTuple):
    """The addresses of an nsqd."""

    tcp: str
    http: str


class Shop:
    """What the parts of the traffic share."""

    def __init__(self, lookupd: str, nodes: list[Node], producers: list[Producer]) -> None:
        self.lookupd, self.nodes, self.producers = lookupd, nodes, producers
        self.dice = random.Random(7)
        self.numbers = itertools.count(1)

    async def post(self, address: str, target: str, body: Any = None) -> Any:
        """Asks a daemon's HTTP API, which must agree."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = await request("POST", f"http://{address}{target}", _HTTP_S, body=data)
        assert answer.status == 200, (target, answer.status, answer.body)
        return json.loads(answer.body) if answer.body[:1] == b"{" else None

    async def make(self, topic: str, nodes: list[int], *channels: str, **config: Any) -> None:
        """A topic with channels on these nodes; `config` is the channels'."""
        for node in nodes:
            http = self.nodes[node].http
            await self.post(http, f"/topic/create?topic={topic}")
            for channel in channels:
                target = f"topic={topic}&channel={channel.replace('#', '%23')}"
                await self.post(http, f"/channel/create?{target}")
                if config:
                    await self.post(http, f"/channel/config?{target}", config)

    def order(self) -> bytes:
        """An order, as JSON."""
        number = next(self.numbers)
        item = self.dice.choice(("tea", "coffee", "cocoa"))
        return json.dumps({"order": number, "item": item, "count": number % 7 + 1}).encode()


# --- what is there -------------------------------------------------------------------------------


async def furnish(shop: Shop) -> None:
    """Makes all topics and channels, and what lies in them from the beginning."""
    await shop.make("orders", [0, 1, 2], "billing", "shipping", "audit#ephemeral")
    await shop.make("clicks", [0, 1], "archive", "live")
    await shop.make("payments", [0, 2], "ledger", max_attempts=1)
    await shop.make("payments.dead", [0, 2])
    await shop.make("reminders", [1], "mailer")
    await shop.make("sensors", [2], "alarms")
    await shop.post(shop.nodes[2].http, "/channel/pause?topic=sensors&channel=alarms")
    await shop.make("notes", [0], "reader")
    for body in NOTES:
        await shop.producers[0].publish("notes", body)
    for number in range(25):
        await shop.producers[1].deferred_publish("reminders", 3000 + number, b"renew %d" % number)
    await shop.post(shop.nodes[0].http, "/log/commit?topic=orders&group=warehouse", {"offsets": {}})
    await shop.post(shop.lookupd, "/topic/create?topic=retired")
    await shop.post(shop.lookupd, "/channel/create?topic=retired&channel=once")


# --- what goes on --------------------------------------------------------------------------------


async def publish(shop: Shop) -> None:
    """One turn of all producers."""
    dice, (first, second, third) = shop.dice, shop.producers
    for producer in shop.producers:
        await producer.multi_publish("orders", [shop.order() for _ in range(dice.randint(1, 3))])
    for producer in (first, second):
        lines = [b"%d GET /shop/%d" % (next(shop.numbers), dice.randrange(99)) for _ in range(2)]
        await producer.multi_publish("clicks", lines)
    for producer in (first, third):
        await producer.publish("payments", shop.order())
    await third.publish("sensors", dice.randbytes(dice.randint(8, 64)))
    await second.deferred_publish("reminders", 1 + 4 * dice.random(), b"water the plants")


async def commit(shop: Shop) -> None:
    """The reader of the log of `orders` takes what was there a turn ago."""
    http = shop.nodes[0].http
    answer = await request("GET", f"http://{http}/log/offsets?topic=orders", _HTTP_S)
    end = json.loads(answer.body)["queues"][0]["end"]
    offsets = {"offsets": {"0": max(end - 20, 0)}}
    await shop.post(http, "/log/commit?topic=orders&group=warehouse", offsets)


METRICS_SQL = """
  select to_json(struct(
    window.start as minute, item, count(*) as orders)) as body
  from input group by window(ts, '1 minute'), item
"""
HOOKS_ERROR = (
    "http://127.0.0.1:9/hook answered 503 Service Unavailable to the row at offset 1234 of orders"
)


def pipelines(shop: Shop) -> Callable[[], Coroutine[Any, Any, None]]:
    """Turns of four of Spark's pipelines, which tell node 0 how they are.

    One has been started again, one has done no batch yet.
    """
    turns = itertools.count()
    began = time.time() - 60

    async def turn() -> None:
        number = next(turns)
        rate = 900 + 60 * (number % 7) + shop.dice.randrange(40)
        metrics = {
            "id": "6a1d2c60-0000-4000-8000-000000000001", "name": "order-metrics",
            "source": "nsq orders", "sink": "nsq order_metrics", "sql": METRICS_SQL,
            "groups": [["orders", "warehouse"]], "read_per_s": rate, "written_per_s": rate / 30,
            "rows_written": 40 * number, "rows_bad": 3, "state_rows": 1200 + 5 * (number % 60),
            "state_bytes": 3_400_000, "batch_ms": 640 + 30 * (number % 5),
        }  # fmt: skip
        archive = {
            "id": "6a1d2c60-0000-4000-8000-000000000002", "name": "clicks-archive",
            "source": "nsq clicks", "sink": "parquet /lake/clicks", "read_per_s": rate / 2,
            "written_per_s": rate / 2, "rows_written": rate * number, "batch_ms": 320, "lag": 17,
        }  # fmt: skip
        for each in (metrics, archive):
            running = {"state": "running", "started": began + (each is archive and number > 1),
                       "batches": number, "batch": number, "batch_rows": int(rate),
                       "rows_read": rate * number}  # fmt: skip
            await shop.post(shop.nodes[0].http, "/pipelines", running | each)
        if number == 0:
            hooks = {"id": "6a1d2c60-0000-4000-8000-000000000003", "name": "order-hooks",
                     "state": "failed", "source": "nsq orders", "sink": "http",
                     "error": HOOKS_ERROR, "batch": 41, "batch_ms": 20_500}  # fmt: skip
            await shop.post(shop.nodes[0].http, "/pipelines", hooks)
        slow = {"id": "6a1d2c60-0000-4000-8000-000000000004", "name": "price-windows",
                "state": "running", "source": "nsq prices", "sink": "console", "started": began,
                "groups": [["*", "price-windows"]]}  # fmt: skip
        await shop.post(shop.nodes[0].http, "/pipelines", slow)

    return turn


def trade(connection: Connection) -> Callable[[], Coroutine[Any, Any, None]]:
    """Turns of RocketMQ's side: sends, and a group that takes half of what comes."""
    sent = [0] * QUEUES

    async def turn() -> None:
        for queue in range(QUEUES):
            price = b"tea 3.%02d" % (sent[queue] % 100)
            await connection.send("prices", queue, [BatchedMessage(price)] * 4)
            sent[queue] += 4
            await connection.commit("traders", "prices", queue, sent[queue] // 2)

    return turn


def sloppy(message: Message) -> None:
    """Requeues every tenth order and forgets every fortieth."""
    number = json.loads(message.body)["order"]
    if message.attempts == 1 and number % 10 == 0:
        message.requeue(0.5, backoff=False)
    elif not (message.attempts == 1 and number % 40 == 1):
        message.finish()


def strict(message: Message) -> None:
    """Does not want every tenth payment."""
    if json.loads(message.body)["order"] % 10 == 0:
        message.requeue(0, backoff=False)
    else:
        message.finish()


def done(message: Message) -> None:
    """Everything is well."""
    message.finish()


async def consume(shop: Shop, topic: str, channel: str, answer: Callable[[Message], None],
                  **options: Any) -> None:  # fmt: skip
    """A consumer of all nodes, until it is cancelled."""
    config = Config(max_in_flight=60, max_attempts=0, lookupd_poll_interval=1, **options)
    async with Consumer(
        topic, channel, lookupd_http_addresses=[shop.lookupd], config=config
    ) as consumer:
        async for message in consumer:
            answer(message)


async def every(seconds: float, turn: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Again and again, until it is cancelled."""
    while True:
        await turn()
        await asyncio.sleep(seconds)


# --- the program ---------------------------------------------------------------------------------


@asynccontextmanager
async def opened(lookupd: str, nodes: list[Node]) -> AsyncIterator[Shop]:
    """The shop, with a producer for each node."""
    async with AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(Producer(node.tcp)) for node in nodes]
        yield Shop(lookupd, nodes, producers)


async def closed_input() -> None:
    """Returns when standard input, a pipe on which nothing comes, is closed."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await ended.wait()


async def run(lookupd: str, nodes: list[Node], rocketmq_port: int) -> None:
    """The traffic, until it is cancelled."""
    connection = await Connection.open(rocketmq_port)
    await connection.make_topic("prices", QUEUES)
    async with opened(lookupd, nodes) as shop, asyncio.TaskGroup() as group:
        await furnish(shop)
        for client in ("billing-1", "billing-2"):
            group.create_task(consume(shop, "orders", "billing", done, client_id=client))
        for topic, channel, answer, options in (
            ("orders", "shipping", sloppy, {"msg_timeout": 1}),
            ("orders", "audit#ephemeral", done, {"deflate": True}),
            ("clicks", "live", done, {"sample_rate": 50, "snappy": True}),
            ("payments", "ledger", strict, {"user_agent": "ledger/2.1"}),
            ("reminders", "mailer", done, {}),
        ):
            group.create_task(consume(shop, topic, channel, answer, **options))
        group.create_task(every(TURN_S, lambda: publish(shop)))
        group.create_task(every(1, lambda: commit(shop)))
        group.create_task(every(1, pipelines(shop)))
        group.create_task(every(0.5, trade(connection)))
        print("ready", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description="traffic for nsqadmin's pages")
    parser.add_argument("--lookupd", required=True, help="HTTP address of the nsqlookupd")
    parser.add_argument("--nsqd", required=True, action="append", help="a node: TCP,HTTP address")
    parser.add_argument("--rocketmq", required=True, type=int, help="port, on the last node")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX)
    args = parser.parse_args()
    logging.disable()  # late answers are refused, as is to be expected of sloppy consumers
    nodes = [Node(*each.split(",")) for each in args.nsqd]
    traffic = asyncio.create_task(run(args.lookupd, nodes, args.rocketmq))
    end = asyncio.create_task(closed_input())
    await asyncio.wait([traffic, end], timeout=args.seconds, return_when=asyncio.FIRST_COMPLETED)
    if traffic.done():
        traffic.result()


if __name__ == "__main__":
    asyncio.run(main())
