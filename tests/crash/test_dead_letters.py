"""Messages on their way to the dead letters survive SIGKILL, at any moment of the way."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from penstock.net.http.client.once import request
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.testing.daemons import Daemon, run_nsqd
from tests.programs.nsq.nsqd.conftest import Client, mpub

ROUNDS = 5
MESSAGES = 200


async def connect(daemon: Daemon) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", daemon.tcp_port))
    client.send(MAGIC_V2)
    return client


async def give_up(daemon: Daemon, seconds: float) -> None:
    """Requeue all that comes, until nsqd is killed in the middle of it."""
    consumer = await connect(daemon)
    await consumer.subscribe("t", ready=50)
    killing = asyncio.get_running_loop().call_later(seconds, daemon.kill)
    try:
        while True:
            message = await consumer.message()
            assert message.attempts <= 2
            consumer.send(b"REQ %b 0\n" % message.id)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        pass
    finally:
        consumer.writer.close()
        killing.cancel()


async def ask(daemon: Daemon, path: str) -> Any:
    """None where the topic is not there yet."""
    found = await request("GET", f"http://127.0.0.1:{daemon.http_port}{path}", 30.0)
    assert found.status == 200 or b"TOPIC_NOT_FOUND" in found.body, found.body
    return json.loads(found.body) if found.status == 200 else None


async def dead_letters(daemon: Daemon) -> set[str]:
    bodies: set[str] = set()
    where: object = "oldest"
    while where is not None:
        page = await ask(daemon, f"/deadletters?topic=t.dead&limit=1000&from={where}")
        if page is None:
            break
        bodies |= {message["body"] for message in page["messages"]}
        assert all(message["origin"]["topic"] == "t" for message in page["messages"])
        where = page["next"]
    return bodies


async def test_nothing_is_lost_between_the_topics() -> None:
    rng = random.Random(7)
    published: set[str] = set()
    with run_nsqd("--max-attempts=2") as daemon:
        for each in range(ROUNDS):
            bodies = [f"{each}-{number}" for number in range(MESSAGES)]
            producer = await connect(daemon)
            assert await producer.ask(mpub("t", *(body.encode() for body in bodies))) == b"OK"
            producer.writer.close()
            published |= set(bodies)
            await give_up(daemon, rng.uniform(0.005, 0.06))
            daemon.start()
        last = asyncio.create_task(give_up(daemon, 600))
        found: set[str] = set()
        async with asyncio.timeout(90):
            while found != published:
                await asyncio.sleep(0.02)
                found = await dead_letters(daemon)
        last.cancel()
    assert found == published
