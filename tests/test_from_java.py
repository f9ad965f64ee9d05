"""What the page says of our client, beside each example of upstream's, is run on a real broker."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq import client
from penstock.rocketmq.client import (
    Config,
    LitePullConsumer,
    Message,
    MessageQueue,
    PopConsumer,
    Producer,
    PushConsumer,
    Received,
    RetryLater,
    TransactionState,
)
from penstock.rocketmq.mqadmin.sub_commands import find
from tests.java_table import Row, rows
from tools.harness.rocketmq.servers import Servers, run_servers

ROOT = Path(__file__).parent.parent
ROWS = rows()
OURS = [row for row in ROWS if not row.is_shell]
NOT_RUN = ("rpc.", "schedule.TimerMessageProducer")
"""They wait for a reply, or for a time: tests/programs/rocketmq/client has them."""


_PATIENT = Config(request_timeout=60, send_msg_timeout=60, connect_timeout=60)
_KINDS = (LitePullConsumer, PopConsumer, Producer, PushConsumer)
"""Those that a fragment makes itself wait as long as ours do."""


def _code(row: Row) -> Any:
    text = "\n".join(row.ours).replace("poll()", "poll(60)")  # 5 s are little on a busy machine
    return compile(text, row.example, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _example(row: Row) -> str:
    return row.example


@pytest.mark.parametrize("row", OURS, ids=_example)
def test_each_fragment_is_python(row: Row) -> None:
    _code(row)


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_shell], ids=_example)
def test_each_program_is_there(row: Row) -> None:
    for line in row.ours:
        program, name = line.split()
        if program == "mqadmin":
            assert find(name), line
        else:
            assert name.startswith("bench-"), line
            benchmark = name.removeprefix("bench-").replace("-", "_")
            assert (ROOT / "bench" / f"{benchmark}.py").exists(), line


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with run_servers() as found:
        found.make_topic("T")
        yield found


@pytest.fixture
async def fed(servers: Servers) -> AsyncIterator[None]:
    """Messages come to the topic until the test ends."""
    async with Producer("feed", servers.address, config=_PATIENT) as producer:

        async def feed() -> None:
            while True:
                await producer.send(Message("T", b"x", tags="TagA", properties={"a": "3"}))
                await asyncio.sleep(0.05)

        feeding = asyncio.create_task(feed())
        yield
        feeding.cancel()
        await asyncio.wait([feeding])


@asynccontextmanager
async def _names(row: Row, servers: Servers) -> AsyncIterator[dict[str, Any]]:
    """What the fragments take for given."""
    a = servers.address
    ended: list[asyncio.Task[None]] = []

    def handler(message: Received) -> None:
        names["seen"].append(message)
        ended.append(asyncio.create_task(names["consumer"].close()))

    def commit(_: object) -> TransactionState:
        return TransactionState.COMMIT

    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(
            Producer("g", a, config=_PATIENT, on_check=commit)
        )
        kind = LitePullConsumer if "LitePullConsumer" in "".join(row.ours) else PushConsumer
        consumer: Any = kind("g", a, config=_PATIENT)
        stack.push_async_callback(consumer.close)
        names: dict[str, Any] = {
            **{name: getattr(client, name) for name in client.__all__}, "asyncio": asyncio,
            **{kind.__name__: partial(kind, config=_PATIENT) for kind in _KINDS},
            "a": a, "producer": producer, "consumer": consumer, "handler": handler, "seen": [],
            "body": b"x", "id": 7, "message": Message("T", b"x"), "time": 0.0, "offset": 0,
            "messages": [Message("T", b"x")] * 3, "queue": MessageQueue("broker-a", 0, "T"),
            "execute": commit, "check": commit, "key": "an-account", "secret": "a-secret",
        }  # fmt: skip
        yield names
        await asyncio.gather(*ended)


@pytest.mark.parametrize(
    "row", [row for row in OURS if not row.example.startswith(NOT_RUN)], ids=_example
)
@pytest.mark.usefixtures("fed")
async def test_each_fragment_works(row: Row, servers: Servers) -> None:
    async with _names(row, servers) as names:
        if "raise RetryLater" in row.ours:  # they are a handler's
            with pytest.raises(RetryLater):
                await _run(row, names)
            return
        await asyncio.wait_for(_run(row, names), 240)
        if "await consumer.run(handler)" in "".join(row.ours):
            assert names["seen"]
        if "poll()" in "".join(row.ours) or "receive" in "".join(row.ours):
            assert names["messages"]


async def _run(row: Row, names: dict[str, Any]) -> None:
    found = eval(_code(row), names)
    if inspect.iscoroutine(found):
        await found


def test_the_options_of_the_other_table_are_there() -> None:
    text = (ROOT / "docs" / "from-rocketmq.md").read_text(encoding="utf-8")
    calls = re.findall(r"`(Config\([^`]*\))`", text)
    assert "Config(consume_threads=20)" in calls
    for call in calls:
        eval(call, {"Config": Config, "key": "an-account", "secret": "a-secret"})
