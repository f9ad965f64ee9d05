"""``penstock top`` asks real nodes and shows them, plain and in a real terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from penstock.cli.shared.node_selection import NodeSelection
from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.poll import TIMEOUT_S, Poller
from penstock.cluster.groups import LOG
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import Commands, ask, make, publish
from tools.harness import terminals
from tools.harness.processes import unread
from tools.harness.terminals import Screen


async def test_nodes_by_address_and_by_nsqlookupd_and_one_that_is_none() -> None:
    with run_nsqlookupd() as lookupd, run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
        make(nsqd, "t", "c")
        ask(nsqd, "POST", "/log/commit?topic=t&group=spark", b'{"offsets":{}}')
        wait_until(lambda: bool(ask(lookupd, "GET", "/nodes")["producers"]), nsqd.log)
        cluster = Cluster()
        nodes, lookupds = [lookupd.http, "127.0.0.1:1"], [lookupd.http, "127.0.0.1:2"]
        where = NodeSelection(nodes, lookupds)
        async with where.http() as http:
            await Poller(http, cluster, where, 1).once()
    assert set(cluster.nodes) == {nsqd.http, lookupd.http, "127.0.0.1:1"}
    (topic,) = cluster.nodes[nsqd.http].topics
    assert [(reader.name, reader.kind) for reader in topic.readers] == [
        ("c", "channel"), ("spark", LOG)
    ]  # fmt: skip
    assert cluster.nodes["127.0.0.1:1"].error == "connection refused"
    assert cluster.nodes[lookupd.http].error == (
        "another program, or an earlier version, answers there"
    )
    assert cluster.troubles == ["nsqlookupd 127.0.0.1:2: connection refused"]


async def test_a_node_that_hangs_or_dies_holds_nobody_up() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    hanging = f"127.0.0.1:{silent.getsockname()[1]}"
    cluster = Cluster()
    with silent, run_nsqd() as one, run_nsqd() as other:
        news = asyncio.Event()

        async def until(reached: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not reached():
                    news.clear()
                    await news.wait()

        nodes = [hanging, one.http, other.http]
        http = NodeSelection().http(TIMEOUT_S)
        poller = Poller(http, cluster, NodeSelection(nodes), 0.02, changed=news.set)
        poller.start()
        try:
            await until(lambda: _is_good(cluster, one) and _is_good(cluster, other))
            other.kill()
            await until(lambda: other.http in cluster.nodes and not _is_good(cluster, other))
            seen = cluster.nodes[one.http].at_ns
            await until(lambda: cluster.nodes[one.http].at_ns > seen)
            other.start()
            await until(lambda: _is_good(cluster, other))
        finally:
            await poller.stop()
            await http.close()


def _is_good(cluster: Cluster, node: Daemon) -> bool:
    return node.http in cluster.nodes and not cluster.nodes[node.http].error


def screen(*arguments: str, columns: int = 100, lines: int = 20) -> AbstractContextManager[Screen]:
    return terminals.screen("top", *arguments, columns=columns, lines=lines)


def test_one_plain_table_and_json(command: Commands) -> None:
    dead = "--nsqd-http-address=127.0.0.1:1"
    with run_nsqd() as nsqd:
        make(nsqd, "orders", "bill")
        publish(nsqd, "orders", [b"x"] * 7)
        how = ("--interval=50ms", f"--nsqd-http-address={nsqd.http}")
        plain = command("top", "--once", *how, dead)
        found = json.loads(command("top", "--json", *how).out)
    assert (plain.code, plain.err) == (0, "")
    lines = plain.out.splitlines()
    assert "● 127.0.0.1:1 connection refused" in lines
    assert any(line.split()[:4] == ["bill", "0", "0", "7"] for line in lines)
    assert "\x1b" not in plain.out
    (topic,) = found["topics"]
    assert (topic["name"], topic["node"], topic["lag"]) == ("orders", nsqd.http, 7)
    assert topic["readers"][0]["depth"] == 7
    assert found["nodes"][0]["health"] == "OK"
    nobody = command("top", "--once", dead)
    assert nobody.code == 1
    assert nobody.err == "penstock: no node answers: 127.0.0.1:1: connection refused\n"


@pytest.mark.parametrize("how", ["--once", "--json"])
def test_a_reader_that_has_had_enough(how: str) -> None:
    with run_nsqd() as nsqd:
        for number in range(60):
            make(nsqd, f"a-topic-with-quite-a-long-name-{number}", "c")
        words = ["top", how, "--interval=50ms", f"--nsqd-http-address={nsqd.http}"]
        assert unread([sys.executable, "-m", "penstock.cli.penstock", *words]) == (0, "")


def test_live_with_keys_another_size_and_a_node_that_dies() -> None:
    with run_nsqd() as one, run_nsqd() as other:
        make(one, "orders", "bill", "ship")
        make(other, "clicks", "archive")
        publish(one, "orders", [b"x"] * 42)
        nodes = [f"--nsqd-http-address={node.http}" for node in (one, other)]
        with screen("--interval=50ms", *nodes) as shown:
            shown.until(lambda text: "orders" in text and "clicks" in text)
            shown.type("/ord\r")
            shown.until(lambda text: "clicks" not in text and "1 topic " in text)
            shown.type("\r")
            text = shown.until(lambda text: "topic orders" in text and "ship" in text)
            assert "42" in text
            shown.resize(50, 10)
            shown.until(lambda text: "bill" in text and "DEPTH" not in text)
            shown.type("\x1b[D\x1b")
            shown.resize(120, 12)
            shown.until(lambda text: "clicks" in text and "DEPTH" in text)
            shown.type("?")
            shown.resize(120, 30)
            shown.until(lambda text: "any key goes back" in text)
            shown.type("x")
            other.kill()
            text = shown.until(lambda text: f"{other.http} connection refused" in text)
            assert "orders" in text
            assert "clicks" not in text
            shown.type("q")
            assert shown.ended() == 0
            assert shown.modes() == shown.before
            assert shown.raw.endswith(b"\x1b[?25h\x1b[?1049l")


def test_suspended_it_gives_the_terminal_back_and_takes_it_again() -> None:
    with screen("--nsqd-http-address=127.0.0.1:1") as shown:
        shown.until(lambda text: "connection refused" in text)
        shown.process.send_signal(signal.SIGTSTP)
        shown.until(lambda _: shown.raw.endswith(b"\x1b[?25h\x1b[?1049l"))
        os.waitid(os.P_PID, shown.process.pid, os.WSTOPPED)
        assert shown.modes() == shown.before
        shown.process.send_signal(signal.SIGCONT)
        shown.until(lambda _: not shown.raw.endswith(b"\x1b[?25h\x1b[?1049l"))
        shown.type("q")
        assert shown.ended() == 0
        assert shown.modes() == shown.before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_clean_terminal(number: int) -> None:
    with screen("--nsqd-http-address=127.0.0.1:1") as shown:
        shown.until(lambda text: "connection refused" in text)
        assert shown.modes() != shown.before
        shown.process.send_signal(number)
        assert shown.ended() == 0
        assert shown.modes() == shown.before
        assert shown.raw.endswith(b"\x1b[?25h\x1b[?1049l")
