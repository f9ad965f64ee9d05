"""Pushing to a statsd: a UDP socket that really receives."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.net.http.server.api import Query
from penstock.nsq.nsqd.stats import statsd_push
from penstock.nsq.nsqd.stats.statsd import StatsdLines
from penstock.testing.daemons import run_nsqd
from tests.programs.nsq.nsqd.conftest import MILLISECOND, Start, options

TIMEOUT_S = 30.0


@pytest.fixture
def statsd() -> Iterator[socket.socket]:
    """A socket that datagrams can be sent to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(TIMEOUT_S)
        yield sock


def address(sock: socket.socket) -> str:
    return f"127.0.0.1:{sock.getsockname()[1]}"


def receive(sock: socket.socket) -> str:
    data = sock.recv(65536)
    assert data.endswith(b"\n")
    return data.decode()


async def test_the_values_arrive(start: Start, statsd: socket.socket) -> None:
    nsqd = await start(
        statsd_address=address(statsd),
        statsd_interval=100 * MILLISECOND,
        statsd_prefix="test.%s",
        statsd_udp_packet_size=100_000,
        e2e_processing_latency_percentiles=(0.99,),
    )
    await nsqd.publish("t", b"x", b"yy")
    nsqd.nsqd.node.registry.channel(nsqd.nsqd.node.broker.topics["t"], "c")
    pushes: list[str] = []
    while not pushes or "channel.c" not in pushes[-1]:
        pushes.append(await asyncio.to_thread(receive, statsd))
    lines = pushes[-1].splitlines()
    prefix = f"test.127_0_0_1_{nsqd.nsqd.ports.http}."
    assert all(line.startswith(prefix) for line in lines)
    assert f"{prefix}topic.t.channel.c.depth:2|g" in lines
    assert f"{prefix}topic.t.channel.c.e2e_processing_latency_99:0|g" in lines
    assert any(line.startswith(f"{prefix}mem.heap_objects:") for line in lines)
    told = [line for push in pushes for line in push.splitlines() if "t.message_bytes" in line]
    assert sum(int(line.split(":")[1].removesuffix("|c")) for line in told) == 3
    later = (await asyncio.to_thread(receive, statsd)).splitlines()
    assert f"{prefix}topic.t.message_count:0|c" in later


async def test_packets_are_small_and_spread_over_the_interval(
    start: Start, statsd: socket.socket
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await start(
        statsd_address=address(statsd),
        statsd_interval=2000 * MILLISECOND,
        statsd_udp_packet_size=50,
    )
    times = []
    for _ in range(9):
        packet = await asyncio.to_thread(receive, statsd)
        times.append(loop.time() - started)
        assert packet.count("\n") == 1
    assert times[0] >= 2
    assert times[-1] >= 2.8  # eight ninths of a second later, whenever the first was received


async def test_what_is_left_of_a_push_goes_out_when_nsqd_stops(
    start: Start, statsd: socket.socket
) -> None:
    nsqd = await start(statsd_address=address(statsd), statsd_udp_packet_size=1)
    push = nsqd.nsqd.statsd
    sending = asyncio.create_task(push._push(StatsdLines(""), Query({}), 60.0))
    await asyncio.to_thread(receive, statsd)
    assert not sending.done()
    await nsqd.stop()
    await asyncio.wait_for(sending, TIMEOUT_S)  # of an interval of 60 s
    rest = [await asyncio.to_thread(receive, statsd) for _ in range(8)]
    assert rest[-1].startswith("mem.gc_runs:")


async def test_without_memory(start: Start, statsd: socket.socket) -> None:
    nsqd = await start(
        statsd_address=address(statsd),
        statsd_interval=50 * MILLISECOND,
        statsd_mem_stats=False,
    )
    await nsqd.publish("t", b"x")
    assert "mem." not in await asyncio.to_thread(receive, statsd)


@pytest.mark.parametrize("wrong", ["unknown.host:8125", "a..b:1", "127.0.0.1", "127.0.0.1:what"])
async def test_an_address_that_cannot_be_used_is_a_warning(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    real = socket.getaddrinfo

    def lookup(host: str, *rest: Any, **more: Any) -> Any:
        if host == "unknown.host":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with caplog.at_level(logging.WARNING, "penstock.nsqd"):
        nsqd = await start(statsd_address=wrong, statsd_interval=20 * MILLISECOND)
        await nsqd.until(lambda: caplog.text.count(f"STATSD: cannot send to {wrong}") >= 2)
    await nsqd.publish("t", b"x")
    assert (await nsqd.topic("t"))["message_count"] == 1
    assert "Traceback" not in caplog.text


async def test_a_silent_name_server_is_not_waited_for(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_datagram_endpoint", hang)
    monkeypatch.setattr(statsd_push, "DIAL_S", 0.01)
    with caplog.at_level(logging.WARNING, "penstock.nsqd"):
        nsqd = await start(statsd_address="h:1", statsd_interval=20 * MILLISECOND)
        await nsqd.until(lambda: "STATSD: cannot send to h:1" in caplog.text)
        await nsqd.stop()
    assert "trying again in the next interval - timed out" in caplog.text


async def test_nobody_listening_does_not_matter(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        free = address(sock)
    with caplog.at_level(logging.INFO, "penstock.nsqd"):
        nsqd = await start(
            statsd_address=free, statsd_interval=20 * MILLISECOND, statsd_udp_packet_size=20
        )
        await nsqd.until(lambda: caplog.text.count("STATSD: pushing") >= 3)
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_failure_inside_is_logged_and_the_next_push_comes(
    start: Start,
    statsd: socket.socket,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setattr("penstock.nsq.nsqd.stats.stats.collect", broken)
    await start(statsd_address=address(statsd), statsd_interval=20 * MILLISECOND)
    assert "mem.heap_objects" in await asyncio.to_thread(receive, statsd)
    assert "STATSD: push failed" in caplog.text


def test_an_interval_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--statsd-interval must be greater than 0"):
        options(tmp_path, statsd_address="127.0.0.1:8125", statsd_interval=0).check()
    options(tmp_path, statsd_interval=0).check()


def test_the_program_itself(statsd: socket.socket) -> None:
    flags = (f"--statsd-address={address(statsd)}", "--statsd-interval=100ms")
    with run_nsqd(*flags) as daemon:
        found = receive(statsd)
        prefix = f"nsq.127_0_0_1_{daemon.http_port}."
        assert all(line.startswith(prefix) for line in found.splitlines())
        assert len(found) <= 508
        assert "STATSD: pushing stats to" in daemon.log()
        assert "no effect" not in daemon.log()
