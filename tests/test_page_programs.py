"""The fragments of Python on the pages, run with the names around them that they take for granted.

Programs that are whole have their tests in `test_followed_pages.py`, those for Spark in
tests/spark.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.nsq import client as nsq_client
from penstock.nsq.client import Config, Consumer
from penstock.rocketmq import client
from penstock.rocketmq.client import Message, Producer, PushConsumer, blocking, sql
from penstock.spark.access import close_connections
from penstock.testing.daemons import Daemon, RocketMQ, run_nsqd, run_rocketmq
from tests.forwarding import channel, create, publish
from tests.page_blocks import sample, without_row
from tools.harness.certificates import Certificates
from tools.pages.documentation import replaced

PATIENT = client.Config(request_timeout=60, send_msg_timeout=60)
FRAGMENTS = {
    "arrow.md": ["import duckdb"],
    "client.md": [
        "consumer.deliveries()",
        "consumer.on_give_up",
        "config = Config(",
        "class Count",
        "import pytest",
    ],
    "rocketmq-client.md": ["run_batches", "LitePullConsumer"],
}


def test_each_fragment_has_a_test() -> None:
    mine = {sample(page, mark) for page, marks in FRAGMENTS.items() for mark in marks}
    assert mine == {block.text for block in without_row("python")}


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as nsqd:
        yield nsqd


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMQ]:
    with run_rocketmq(enablePropertyFilter="true") as rocketmq:
        yield rocketmq


async def ran(text: str, names: dict[str, Any]) -> None:
    """Run a fragment, which may wait."""
    code = compile(text, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)
    if inspect.iscoroutine(done):
        await done


@asynccontextmanager
async def running(text: str, names: dict[str, Any]) -> AsyncIterator[None]:
    """A fragment that goes on for ever, until the end of the block."""
    task = asyncio.create_task(ran(text, names))
    try:
        yield
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.wait([task])


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not done():  # noqa: ASYNC110 - the state is another process's
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", range(3), ids=["messages", "deliveries", "run"])
async def test_each_way_of_consuming(nsqd: Daemon, number: int) -> None:
    part = sample("client.md", "consumer.deliveries()").split("\n\n")[number]
    topic = f"orders-{number}"
    create(nsqd, topic, "billing")
    publish(nsqd, topic, [b"tea", b"coffee"])
    async with Consumer(topic, "billing", nsqd_tcp_addresses=[nsqd.tcp]) as consumer:
        names = {"consumer": consumer, "total": 0, "handler": lambda message: message.body}
        async with running(part, names):

            def is_empty() -> bool:
                now = channel(nsqd, topic, "billing")  # once: they may be delivered meanwhile
                return bool(now["in_flight_count"] == now["depth"] == 0)

            await until(is_empty)
    assert names["total"] == (9 if number == 1 else 0)


async def test_a_message_that_always_fails_is_kept(nsqd: Daemon) -> None:
    for topic, name in (("given-up", "billing"), ("orders.dead", "look")):
        create(nsqd, topic, name)
    publish(nsqd, "given-up", [b"tea"])
    config = Config(max_attempts=1, default_requeue_delay=0, max_backoff_duration=0)
    async with (
        nsq_client.Producer(nsqd.tcp) as producer,
        Consumer("given-up", "billing", nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer,
    ):
        names = {"consumer": consumer, "producer": producer, "handler": fail}
        async with running(sample("client.md", "consumer.on_give_up"), names):
            await until(lambda: channel(nsqd, "orders.dead", "look")["depth"] == 1)

            def is_finished() -> bool:
                now = channel(nsqd, "given-up", "billing")
                return bool(now["in_flight_count"] == now["depth"] == now["deferred_count"] == 0)

            await until(is_finished)


async def test_options_of_tls(tmp_path: Path) -> None:
    Certificates(tmp_path)
    names: dict[str, Any] = {"Config": Config}
    await ran(
        sample("client.md", "config = Config(").replace("ca.pem", f"{tmp_path}/ca.pem"), names
    )
    assert names["config"].tls_v1


async def test_the_dictionary_of_a_record(nsqd: Daemon) -> None:
    names: dict[str, Any] = {"logging": logging, "seen": []}
    text = sample("client.md", "class Count").replace("...", "seen.append(record.nsq)")
    await ran(text, names)
    log, handler = logging.getLogger("penstock.nsq.client"), names["Count"]()
    log.addHandler(handler)
    try:
        publish(nsqd, "refused", [b"tea"])
        config = Config()
        async with (
            Consumer("refused", "c", nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer,
            running("await consumer.run(handler)", {"consumer": consumer, "handler": fail}),
        ):
            await until(lambda: bool(names["seen"]))
    finally:
        log.removeHandler(handler)
    assert names["seen"][0].keys() >= {"topic", "channel"}


def fail(message: object) -> None:
    raise ValueError("no such order")


def test_the_fixtures_of_a_service(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    use = "\n\ndef test_fixture(nsqd):\n    assert nsqd.http\n"
    (tmp_path / "test_page.py").write_text(sample("client.md", "import pytest") + use)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr


# --- RocketMQ -------------------------------------------------------------------------------------


@asynccontextmanager
async def sending(rocketmq: RocketMQ, topic: str) -> AsyncIterator[None]:
    """Messages that come all the time."""
    async with Producer("shop", rocketmq.address, config=PATIENT) as producer:

        async def send() -> None:
            while True:
                await producer.send(Message(topic, b"tea", "paid", properties={"amount": "9"}))
                await asyncio.sleep(0.05)

        await producer.send(Message(topic, b"first"))
        task = asyncio.create_task(send())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.mark.parametrize("way", ["run(", "run_batches("])
async def test_each_way_of_being_pushed(rocketmq: RocketMQ, way: str) -> None:
    parts = ast.parse(sample("rocketmq-client.md", "run_batches")).body
    texts = [ast.unparse(part) for part in parts]
    text = "\n".join(each for each in texts if "await" not in each or f".{way}" in each)
    seen: list[object] = []
    names = {"sql": sql, "handler": seen.append}
    async with (
        sending(rocketmq, "orders"),
        sending(rocketmq, "stock"),
        PushConsumer("billing-" + way.strip("("), rocketmq.address, config=PATIENT) as consumer,
        running(text, names | {"consumer": consumer}),
    ):
        await until(lambda: len(seen) > 1)


async def test_pulling_and_popping(rocketmq: RocketMQ) -> None:
    text = sample("rocketmq-client.md", "LitePullConsumer").replace(
        "127.0.0.1:9876", rocketmq.address
    )
    names: dict[str, Any] = {}
    async with sending(rocketmq, "orders"):
        await ran(text, names)
    assert names["messages"]


# --- Arrow ----------------------------------------------------------------------------------------


def test_tables_of_arrow(
    nsqd: Daemon, rocketmq: RocketMQ, capfd: pytest.CaptureFixture[str]
) -> None:
    """All lines but those of polars, which is 180 MB and reads what has this method."""
    publish(nsqd, "events", [b"tea"])
    with blocking.Producer("shop", rocketmq.address) as producer:
        producer.send(Message("orders", b"tea", "paid"))
    lookup, node = 'lookupd_http_address="127.0.0.1:4161"', f'nsqd_http_address="{nsqd.http}"'
    own = {"127.0.0.1:4151": nsqd.http, "127.0.0.1:9876": rocketmq.address, lookup: node}
    text = replaced(sample("arrow.md", "import duckdb"), own)
    names: dict[str, Any] = {}
    kept = [line for line in text.splitlines() if "polars" not in line]
    for part in "\n".join(kept).split("\n\n"):
        exec(part, names)
        assert (
            hasattr(names.get("rows", names["penstock"]), "__arrow_c_stream__")
            or "rows" not in names
        )
    counted, tagged = capfd.readouterr().out.split("count_star", 2)[1:]
    assert re.search(r"\b1\b", counted)
    assert "paid" in tagged
    assert names["frame"]["body"].tolist() == [b"tea"]
    assert names["batch"]["body"].to_pylist() == [b"tea"]
    close_connections()
