"""``penstock top`` as a user meets it: plain, and in a real pseudo-terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import AbstractContextManager

import pytest

from penstock.testing.daemons import run_nsqd
from tests.unit.cli.nodes_at_work import Commands, make, publish
from tools.harness import terminals
from tools.harness.processes import unread
from tools.harness.terminals import Screen


def screen(*arguments: str, columns: int = 100, lines: int = 20) -> AbstractContextManager[Screen]:
    return terminals.screen("top", *arguments, columns=columns, lines=lines)


def test_one_plain_table(command: Commands) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "orders", "bill")
        publish(nsqd, "orders", [b"x"] * 7)
        dead = "127.0.0.1:1"
        ended = command("top", "--once", "--interval=50ms", f"--nsqd-http-address={nsqd.http}",
                        f"--nsqd-http-address={dead}")  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert f"● {dead} connection refused" in lines
    assert any(line.split()[:4] == ["bill", "0", "0", "7"] for line in lines)
    assert "\x1b" not in ended.out


def test_json(command: Commands) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "orders", "bill")
        publish(nsqd, "orders", [b"x"] * 7)
        ended = command("top", "--json", "--interval=50ms", f"--nsqd-http-address={nsqd.http}")
    found = json.loads(ended.out)
    (topic,) = found["topics"]
    assert (topic["name"], topic["node"], topic["lag"]) == ("orders", nsqd.http, 7)
    assert topic["readers"][0]["depth"] == 7
    assert found["nodes"][0]["health"] == "OK"


@pytest.mark.parametrize("how", ["--once", "--json"])
def test_a_reader_that_has_had_enough(how: str) -> None:
    with run_nsqd() as nsqd:
        for number in range(60):
            make(nsqd, f"a-topic-with-quite-a-long-name-{number}", "c")
        words = ["top", how, "--interval=50ms", f"--nsqd-http-address={nsqd.http}"]
        assert unread([sys.executable, "-m", "penstock.cli.penstock", *words]) == (0, "")


def test_nobody_answers(command: Commands) -> None:
    ended = command("top", "--once", "--nsqd-http-address=127.0.0.1:1")
    assert ended.code == 1
    assert ended.err == "penstock: no node answers: 127.0.0.1:1: connection refused\n"


@pytest.mark.parametrize("interval", ["0s", "x", "-1s"])
def test_an_interval_that_makes_no_sense(command: Commands, interval: str) -> None:
    ended = command("top", f"--interval={interval}")
    assert ended.code == 2
    assert ended.err.startswith(f"penstock: --interval {interval}: give a duration")


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
