"""Measures what RocketMQ's requests cost our broker in its own process, without socket and client.

Requests as Java's client sends them go to the real connection, broker, node and files; what is left
out is the system's part and the wait for it. The processor time of the loop's thread counts, for
the best thousand messages, as it varies least: syncs run in another thread.

    python bench/rocketmq_in_process.py [--only NAME …] [--rounds N] [--profile]

`--profile` prints, instead of times, the functions of our own that a message calls, and where their
time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from penstock.cli.mqbroker import node_options
from penstock.cli.shared.dialects import nsq_letters
from penstock.node.opening import open_node
from penstock.replication.state import check_primary
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.registration import TopicConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.rocketmq.remoting import Connection

TOPIC, QUEUES = "BenchmarkTest", 1024
BODY = b"x" * 128
BATCH = 16
PULL = 32
JAVA_4_9 = 401
PART = 1000
"""Messages that are measured together: the index of keys works once for a thousand."""
BORN_MS = 1_700_000_000_000


class Transport:
    """A transport that counts what it is given."""

    def __init__(self) -> None:
        self.writes = 0
        self.nbytes = 0
        self.kept: list[bytes] | None = None

    def writelines(self, pieces: Sequence[bytes]) -> None:
        """As asyncio's: uvloop sends them with one call of the system."""
        self.writes += 1
        self.nbytes += sum(map(len, pieces))
        if self.kept is not None:
            self.kept += map(bytes, pieces)

    def write(self, data: bytes) -> None:
        """As asyncio's."""
        self.writelines((data,))

    def get_extra_info(self, name: str) -> Any:
        """The address of the client that is not there."""
        return ("127.0.0.1", 50_000) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        """Nothing: all is sent at once."""
        return 0

    def is_closing(self) -> bool:
        """False: nobody hangs up."""
        return False

    def set_write_buffer_limits(self, high: int) -> None:
        """Without effect, as nothing waits."""

    def pause_reading(self) -> None:
        """Without effect: nothing is read."""

    def resume_reading(self) -> None:
        """Without effect: nothing is read."""

    def close(self) -> None:
        """Without effect: there is no socket."""


def send_fields(number: int, text: str, *, batch: bool = False) -> dict[str, str]:
    """The fields of a send as Java's client has them, in its order."""
    return {
        "a": "benchmark_producer", "b": TOPIC, "c": "TBW102", "d": "4",
        "e": str(number * 7 % QUEUES), "f": "0", "g": str(BORN_MS + number), "h": "0", "i": text,
        "j": "0", "k": "false", "m": str(batch).lower(), "n": "broker-a",
    }  # fmt: skip


def unique_key(number: int) -> str:
    """A message's key as Java's client makes it."""
    return f"7F00000100002A139A5B{number & 0xFFFFFF:012X}"


def request(
    code: int, number: int, fields: dict[str, str], body: bytes, kind: Serialization
) -> bytes:
    """One frame."""
    return frames.encode(
        Command(code, number, fields, body, language=Language.JAVA, version=JAVA_4_9,
                serialization=kind)
    )  # fmt: skip


def single(number: int, kind: Serialization) -> bytes:
    """A send of one message."""
    text = f"UNIQ_KEY\x01{unique_key(number)}\x02WAIT\x01true"
    return request(RequestCode.SEND_MESSAGE_V2, number, send_fields(number, text), BODY, kind)


def batch(number: int, kind: Serialization, *, even: bool = True) -> bytes:
    """A send of messages of one layout, or of sizes that differ."""
    messages = [
        batch_body.BatchedMessage(
            BODY if even else BODY[: 64 + (number + each * 13) % 64],
            f"UNIQ_KEY\x01{unique_key(number * BATCH + each)}\x02WAIT\x01true",
        )
        for each in range(BATCH)
    ]
    fields = send_fields(number, "WAIT\x01true", batch=True)
    code = RequestCode.SEND_BATCH_MESSAGE
    return request(code, number, fields, batch_body.encode(messages), kind)


def pull(number: int, queue: int, offset: int) -> bytes:
    """A pull of messages of a queue."""
    fields = {
        "consumerGroup": "benchmark_consumer", "topic": TOPIC, "queueId": str(queue),
        "queueOffset": str(offset), "maxMsgNums": str(PULL), "sysFlag": "6",
        "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*",
        "subVersion": "1700000000000", "expressionType": "TAG",
    }  # fmt: skip
    return request(RequestCode.PULL_MESSAGE, number, fields, b"", Serialization.BINARY)


class Load:
    """Reads of a connection: ``messages`` in each."""

    def __init__(self, reads: list[bytes], messages: int) -> None:
        self.reads = reads
        self.messages = messages

    def parts(self) -> Iterator[Load]:
        """Parts that are measured by themselves."""
        size = -(-PART // self.messages)
        for at in range(0, len(self.reads), size):
            yield Load(self.reads[at : at + size], self.messages)


def sends(count: int, kind: Serialization, together: int) -> Load:
    """Sends of single messages, so many in each read."""
    made = [single(number, kind) for number in range(count)]
    return Load([b"".join(made[at : at + together]) for at in range(0, count, together)], together)


def batches(count: int, kind: Serialization, together: int = 1, *, even: bool = True) -> Load:
    """Batch sends."""
    made = [batch(number, kind, even=even) for number in range(count)]
    reads = [b"".join(made[at : at + together]) for at in range(0, count, together)]
    return Load(reads, together * BATCH)


def pulls(count: int, each: int) -> Load:
    """Pulls by turns from queues that all hold so many messages."""
    reads = []
    per_queue = each // PULL
    for number in range(count):
        queue, turn = number % QUEUES, number // QUEUES
        reads.append(pull(number, queue, turn % per_queue * PULL))
    return Load(reads, PULL)


BINARY, JSON = Serialization.BINARY, Serialization.JSON
SENDS: dict[str, Callable[[], Load]] = {
    "send1": lambda: sends(20_000, BINARY, 1),
    "send1-json": lambda: sends(20_000, JSON, 1),
    "send16": lambda: sends(24_000, BINARY, 16),
    "send16-json": lambda: sends(24_000, JSON, 16),
    "batch16": lambda: batches(2500, BINARY),
    "batch16-json": lambda: batches(2500, JSON),
    "batch16-x8": lambda: batches(2500, BINARY, 8),
    "batch16-mixed": lambda: batches(2500, BINARY, even=False),
}
"""Loads that need no backlog."""
NAMES = (*SENDS, "pull")
_BACKLOG = 64


async def play(connection: Connection, transport: Transport, load: Load) -> None:
    """Give the connection all reads, and the loop its passes where an answer waits for them."""
    receive = connection.data_received
    for data in load.reads:
        writes = transport.writes
        receive(data)
        while transport.writes == writes:  # noqa: ASYNC110 - what is waited for is a pass
            await asyncio.sleep(0)


@asynccontextmanager
async def broker_on(path: Path) -> AsyncIterator[tuple[RocketBroker, Connection, Transport]]:
    """A broker, and a connection to it that has no socket."""
    settings = BrokerSettings()
    settings.update({
        "storePathRootDir": str(path), "listenPort": "0", "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1", "namesrvAddr": "", "autoCreateTopicEnable": "true",
        "autoCreateSubscriptionGroup": "true",
    })  # fmt: skip
    options = node_options(settings, 30)
    node = await open_node(options, check_primary, nsq_letters, program="mqbroker")
    broker = await RocketBroker.start(settings, node)
    node.start()
    services = broker.services
    services.topics.put(TopicConfig(TOPIC, QUEUES, QUEUES), services.now_ms)
    services.store.topic(TOPIC)
    services.store.configured(TOPIC)
    connection = broker._server()
    transport = Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    try:
        yield broker, connection, transport
    finally:
        connection.connection_lost(None)
        await broker.close()
        await node.close()


async def measured(name: str, around: Callable[[Awaitable[None]], Awaitable[float]]) -> float:
    """What ``around`` makes of one load on a fresh broker, for each message."""
    with tempfile.TemporaryDirectory() as folder:
        async with broker_on(Path(folder)) as (broker, connection, transport):
            if name in SENDS:
                load = SENDS[name]()
                warm = Load(load.reads[: len(load.reads) // 10], load.messages)
            else:
                await play(connection, transport, batches(QUEUES * _BACKLOG // BATCH, BINARY, 8))
                for _ in range(100):
                    await asyncio.sleep(0.002)
                connection = broker._server()  # a consumer's own; it has been to each queue before
                connection.connection_made(transport)  # type: ignore[arg-type]
                load = pulls(2 * QUEUES, _BACKLOG)
                warm, load = Load(load.reads[:QUEUES], PULL), Load(load.reads[QUEUES:], PULL)
            await play(connection, transport, warm)
            results = []
            for part in load.parts():
                transport.nbytes = 0
                result = await around(play(connection, transport, part))
                assert transport.nbytes, "nothing was answered"
                results.append(result / (len(part.reads) * part.messages))
            return min(results)


async def cpu_us(work: Awaitable[None]) -> float:
    """Its processor time in microseconds."""
    began = time.thread_time()
    await work
    return (time.thread_time() - began) * 1e6


async def profiled(work: Awaitable[None]) -> float:
    """The calls of functions of our own; and prints where the time goes."""
    profile = cProfile.Profile()
    profile.enable()
    await work
    profile.disable()
    stats = pstats.Stats(profile)
    stats.sort_stats("tottime").print_stats("penstock", 70)
    found: dict[tuple[str, int, str], tuple[int, ...]] = stats.stats  # type: ignore[attr-defined]
    return float(sum(row[1] for (file, _, _), row in found.items() if "penstock" in file))


def names(wanted: list[str] | None) -> Iterator[str]:
    """Those asked for, or all."""
    yield from wanted or NAMES


def main(argv: list[str]) -> int:
    """Print a line for each load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args(argv)
    for name in names(args.only):
        if args.profile:
            calls = uvloop.run(measured(name, profiled))
            print(f"{name}: {calls:.1f} calls of our own functions a message")
            continue
        rounds = [uvloop.run(measured(name, cpu_us)) for _ in range(args.rounds)]
        print(f"{name}: {min(rounds):.2f} us a message (up to {max(rounds):.2f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
