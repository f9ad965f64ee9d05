"""Exactly once by stage and commit: a writer that tries again until it is answered, and SIGKILL."""

from __future__ import annotations

import asyncio
import json
import os
import random
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest

from penstock.log_api.log_client import LogClient
from penstock.net.http.client.once import HttpError, request
from penstock.nsq.stored import StoredRange
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.storage.batch import iter_batches
from penstock.testing.daemons import Daemon, run_mqbroker, run_nsqd

ROUNDS = int(os.environ.get("PENSTOCK_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)
_SECONDS = 60.0
TOPICS = ("t", "u")
PARTS = 3
ROWS_MAX = 2000


async def ask(nsqd: Daemon, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    answer = await request(method, f"http://{nsqd.http}{path}", _SECONDS, body=body)
    return answer.status, json.loads(answer.body or b"null")


class Nsq:
    """Messages of NSQ's topics, staged at nsqd."""

    query = ""

    def run(self, level: str) -> AbstractContextManager[Daemon]:
        return run_nsqd(f"--durability={level}", "--max-bytes-per-file=2000000")

    def body(self, bodies: Sequence[bytes], rng: random.Random) -> bytes:
        messages = [struct.pack(">II", len(body), 0) + body for body in bodies]
        return struct.pack(">I", len(messages)) + b"".join(messages)

    def check(self, node: Daemon, topic: str, rows: Sequence[str]) -> None:
        """There is one queue, the log."""


class Rocketmq:
    """Messages of RocketMQ's topics, staged at mqbroker."""

    query = "&dialect=rocketmq"

    def run(self, level: str) -> AbstractContextManager[Daemon]:
        flush = "SYNC_FLUSH" if level == "fsync" else "ASYNC_FLUSH"
        return run_mqbroker(flushDiskType=flush)

    def body(self, bodies: Sequence[bytes], rng: random.Random) -> bytes:
        """Two sections, of which one or none has a shard."""
        cut = rng.randint(0, len(bodies))
        parts = []
        for some, shard in ((bodies[:cut], rng.randint(0, 7)), (bodies[cut:], 0)):
            messages = batch_body.encode(BatchedMessage(body) for body in some)
            parts += [struct.pack(">II", shard, len(messages)), messages] if some else []
        return b"".join(parts)

    def check(self, node: Daemon, topic: str, rows: Sequence[str]) -> None:
        """Queues are dense, and hold together what the log holds."""
        found = []
        with LogClient(node.http, dialect="rocketmq") as log:
            for queue in log.offsets(topic).queues:
                offset = 0
                while offset < queue.end:
                    for each in decode_all(log.fetch(topic, offset, queue=queue.queue).data):
                        assert (each.queue, each.queue_offset) == (queue.queue, offset)
                        offset += 1
                        found.append(each.body.decode().rstrip("_"))
        assert sorted(row for row in found if row[0] != "p") == sorted(rows)


class StagingWriter:
    """Commits batch after batch to two topics, as a query of Spark does: what fails is done again
    from its beginning, by new attempts whose rows come in another order.
    """

    def __init__(self, nsqd: Daemon, form: Nsq | Rocketmq, rng: random.Random) -> None:
        self.nsqd = nsqd
        self.form = form
        self.rng = rng
        self.batch = 0
        self.attempt = 0
        self.rows: list[list[str]] = []
        """The rows of each batch, sorted: answered as committed, but for the last."""
        self.stop = False
        self._requests_left = 0
        self._reached = asyncio.Event()

    async def request_number(self, number: int) -> None:
        """Wait until it makes the request of this number from now on, from 1."""
        self._requests_left = number
        self._reached.clear()
        await self._reached.wait()

    async def _ask(self, path: str, body: bytes) -> tuple[int, Any]:
        self._requests_left -= 1
        if self._requests_left == 0:
            self._reached.set()
        return await ask(self.nsqd, "POST", path, body)

    async def run(self) -> None:
        """Commit until it is told to stop; whatever happens to the node."""
        while not self.stop:
            rows = [f"{self.batch}.{number}" for number in range(self.rng.randint(1, ROWS_MAX))]
            self.rows.append(sorted(rows))
            while not await self._try(rows):  # noqa: ASYNC110  # a killed node tells nobody
                await asyncio.sleep(0.01)
            self.batch += 1

    async def _try(self, rows: list[str]) -> bool:
        """One try; True when all topics are answered."""
        self.attempt += 1
        self.rng.shuffle(rows)
        try:
            for topic in TOPICS:
                for part in range(PARTS):
                    await self._stage(topic, part, rows[part::PARTS])
            return await self._commit()
        except HttpError:  # it was killed
            return False

    async def _stage(self, topic: str, part: int, rows: list[str]) -> None:
        place = f"part={part}&attempt={self.attempt}&chunk=0"
        path = f"/stage?topic={topic}&writer=w&batch={self.batch}&{place}{self.form.query}"
        if rows:
            bodies = [row.encode().ljust(self.rng.choice([20, 200]), b"_") for row in rows]
            status, answer = await self._ask(path, self.form.body(bodies, self.rng))
            assert status == 200 or answer["message"] == "BATCH_COMMITTED", answer

    async def _commit(self) -> bool:
        filled = min(PARTS, len(self.rows[-1]))
        parts = [{"part": part, "attempt": self.attempt, "chunks": int(part < filled)}
                 for part in range(PARTS)]  # fmt: skip
        body = json.dumps({"topics": dict.fromkeys(TOPICS, parts)}).encode()
        status, answer = await self._ask(f"/stage/commit?writer=w&batch={self.batch}", body)
        assert status == 200, answer
        for topic in TOPICS:
            told = answer["topics"][topic]
            assert "count" in told, told
            assert told["again"] or told["count"] == len(self.rows[-1])
        return True


async def publish(nsqd: Daemon) -> None:
    """Publishes between the commits, so that those are not alone in the log."""
    while True:
        with suppress(HttpError):
            await request("POST", f"http://{nsqd.http}/pub?topic=t", _SECONDS, body=b"p" * 50)
        await asyncio.sleep(0.002)


async def rows_of(nsqd: Daemon, topic: str) -> list[str]:
    """All rows of a topic's log, as they stand there."""
    _, bounds = await ask(nsqd, "GET", f"/log/offsets?topic={topic}")
    offset, end = bounds["queues"][0]["start"], bounds["queues"][0]["end"]
    found: list[str] = []
    while offset < end:
        path = f"/log/fetch?topic={topic}&offset={offset}"
        answer = await request("GET", f"http://{nsqd.http}{path}", _SECONDS)
        for batch in iter_batches(answer.body):
            bodies = StoredRange(batch, batch.first_offset, batch.next_offset).bodies()
            found += [body.decode().rstrip("_") for body in bodies]
            offset = batch.next_offset
    return [row for row in found if row[0] != "p"]


def check(rows: list[str], wanted: list[list[str]]) -> None:
    """Each batch stands there once, in one piece, one behind the other."""
    start = 0
    for batch in wanted:
        assert sorted(rows[start : start + len(batch)]) == batch
        start += len(batch)
    assert start == len(rows)


@pytest.mark.parametrize(
    ("form", "level", "rounds"),
    [
        (Nsq(), "write", ROUNDS),
        (Nsq(), "fsync", max(1, ROUNDS // 5)),
        (Rocketmq(), "write", max(1, ROUNDS // 5)),
        (Rocketmq(), "fsync", max(1, ROUNDS // 10)),
    ],
)
async def test_each_row_is_there_exactly_once_after_kills(
    form: Nsq | Rocketmq, level: str, rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    with form.run(level) as nsqd:
        writer = StagingWriter(nsqd, form, rng)
        committing = asyncio.ensure_future(writer.run())
        publishing = asyncio.ensure_future(publish(nsqd))
        for _ in range(rounds):
            # A batch has seven: the kill hits stages and commits, and what comes just behind them.
            reached = asyncio.ensure_future(writer.request_number(rng.randint(1, 30)))
            await asyncio.wait([reached, committing], return_when=asyncio.FIRST_COMPLETED)
            assert not committing.done(), committing.exception()
            await asyncio.sleep(rng.uniform(0, 0.01))
            nsqd.kill()
            await asyncio.to_thread(nsqd.start)
        writer.stop = True
        await committing
        publishing.cancel()
        for topic in TOPICS:
            rows = await rows_of(nsqd, topic)
            check(rows, writer.rows)
            await asyncio.to_thread(form.check, nsqd, topic, rows)
        assert not (await ask(nsqd, "GET", "/stats?format=json"))[1].get("staged")
    with capsys.disabled():
        print(f"\n{rounds} kills at level {level}, seed {SEED}: {writer.batch} batches in "
              f"{writer.attempt} tries, {sum(map(len, writer.rows))} rows")  # fmt: skip
    assert writer.batch > 0
