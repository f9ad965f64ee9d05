"""The tools as processes: signals, exit codes, terminals, and what of a stream arrives."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from penstock.nsq.client import Config
from penstock.nsq.client.errors import BadMessage, BadTopic
from penstock.nsq.tools.to_nsq.program import Sender
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import channel, publish, wait_until
from tests.unit.cli.nodes_at_work import ask
from tools.harness.processes import text_on


@pytest.fixture(scope="module")
def nsqds() -> Iterator[list[Daemon]]:
    with run_nsqd("--max-msg-size=100") as one, run_nsqd() as two:
        yield [one, two]


@pytest.fixture
def nsqd(nsqds: list[Daemon]) -> Daemon:
    """Takes messages of 100 bytes at most."""
    return nsqds[0]


# --- how a tool ends


ENDING = """
import asyncio, sys
from penstock.nsq.tools.lifecycle import run_tool
async def main(stop):
    print("ready", flush=True)
    {body}
sys.exit(run_tool(main))
"""


def started(body: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", ENDING.format(body=body)]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


def test_a_second_signal_ends_it_at_once() -> None:
    program = started("await stop.wait(); print('asked', flush=True); await asyncio.sleep(600)")
    program.terminate()
    assert program.stdout is not None
    assert program.stdout.readline() == "asked\n"
    program.terminate()
    program.communicate(timeout=60)
    assert program.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [("return 7", 7, ""), ("raise ValueError('no')", 1, " unexpected ValueError: no\n")],
)
def test_how_it_ends(body: str, code: int, said: str) -> None:
    program = started(body)
    err = program.communicate(timeout=60)[1]
    assert program.returncode == code
    assert err.endswith(said)
    assert err.count("\n") == bool(said)


# --- nsq_tail


TAIL = [sys.executable, "-m", "penstock.cli.nsq_tail"]


def until_left(nsqd: Daemon, topic: str, count: int) -> None:
    """Wait until so many messages are left and none is in flight: nsqd may read a program's last
    words after its end.
    """

    def figures() -> tuple[int, int]:
        found = channel(nsqd, topic, "c")
        return found["depth"], found["in_flight_count"]

    wait_until(lambda: figures() == (count, 0), lambda: str(figures()))


def tail(nsqd: Daemon, *flags: str) -> list[str]:
    return [*TAIL, f"--nsqd-tcp-address={nsqd.tcp}", "--channel=c", *flags]


def test_so_many_and_all_of_them_finished(nsqd: Daemon) -> None:
    publish(nsqd, "n", [b"one", b"two", b"three"])
    words = tail(nsqd, "--topic=n", "-n", "2", "--max-in-flight=1")
    done = subprocess.run(words, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    until_left(nsqd, "n", 1)


def test_two_topics_until_a_signal(nsqd: Daemon) -> None:
    publish(nsqd, "ta", [b"A\xff"])
    publish(nsqd, "tb", [b"B"])
    words = tail(nsqd, "--topic=ta", "--topic=tb", "--print-topic", "-n", "-1")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        lines = {program.stdout.readline(), program.stdout.readline()}
        program.terminate()
        assert program.wait(60) == 0
    assert lines == {b"ta | A\xff\n", b"tb | B\n"}
    until_left(nsqd, "ta", 0)


def test_a_reader_who_has_enough_ends_it(nsqd: Daemon) -> None:
    publish(nsqd, "enough", [b"one", b"two"])
    words = tail(nsqd, "--topic=enough")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline() == b"one\n"
        program.stdout.close()
        assert program.wait(60) == -signal.SIGPIPE
        assert b"Traceback" not in program.stderr.read()


def on_a_terminal(words: list[str], stream: str, given: bytes = b"") -> str:
    """What a person sees of its standard output or error."""
    terminal, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    streams: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: side}
    with tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        done = subprocess.run(words, stdin=file, env=environment, timeout=60, **streams)
    os.close(side)
    assert done.returncode == 0
    return text_on(terminal)


def test_colours_on_a_terminal(nsqd: Daemon) -> None:
    publish(nsqd, "tty", [b'{"a":"b\x1b"}'])
    words = tail(nsqd, "--topic=tty", "-n", "1", "--print-topic")
    shown = on_a_terminal(words, "stdout")
    assert "\x1b[36mtty\x1b[0m" in shown
    assert "\\x1b" in shown


# --- to_nsq


TO_NSQ = [sys.executable, "-m", "penstock.cli.to_nsq"]


def published(nsqd: Daemon, topic: str) -> int:
    (found,) = ask(nsqd, "GET", f"/stats?format=json&topic={topic}")["topics"]
    return int(found["message_count"])


def test_every_record_goes_to_every_address(nsqds: list[Daemon]) -> None:
    addresses = [f"--nsqd-tcp-address={nsqd.tcp}" for nsqd in (*nsqds, nsqds[0])]
    records = b"".join(b"%d\n" % number for number in range(20_000)) + b"last"
    words = [*TO_NSQ, "--topic=every", *addresses]
    done = subprocess.run(words, input=records, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")
    assert [published(nsqd, "every") for nsqd in nsqds] == [20_001, 20_001]


def test_a_node_that_is_not_there_is_told_at_once() -> None:
    # stdin stays open: the failure is not to wait for more input.
    with subprocess.Popen(
        [*TO_NSQ, "--topic=t", "--nsqd-tcp-address=127.0.0.1:1"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as program:
        assert program.stdin is not None
        assert program.stderr is not None
        with suppress(BrokenPipeError):  # as soon as that
            program.stdin.write(b"one\n")
        lines = program.stderr.read().decode().splitlines()
        assert program.wait(60) == 1
    assert lines[-1].endswith(" dial tcp 127.0.0.1:1: connect: connection refused")


def test_a_bar_for_a_file_on_a_terminal(nsqd: Daemon) -> None:
    words = [*TO_NSQ, "--topic=bar", f"--nsqd-tcp-address={nsqd.tcp}"]
    shown = on_a_terminal(words, "stderr", b"x" * 99 + b"\n")
    assert "100%" in shown
    assert "100/100 bytes" in shown


async def send(address: str, topic: str, *portions: list[bytes]) -> int:
    """The bytes that were said to be published. Raises the first error."""
    sizes: list[int] = []
    sender = None
    try:
        async with asyncio.TaskGroup() as group:
            sender = Sender(address, topic, Config(), group, sizes.append)
            for portion in portions:
                await sender.send(portion)
    except ExceptionGroup as error:
        raise error.exceptions[0] from None
    finally:
        assert sender is not None
        await sender.close()
    return sum(sizes)


async def test_many_portions(nsqd: Daemon) -> None:
    portions = [[b"record %d" % number] * 10 for number in range(50)]
    bytes_published = await send(nsqd.tcp, "many", [b"one"], *portions)
    assert published(nsqd, "many") == 501
    assert bytes_published == 4 + sum(len(record) + 1 for each in portions for record in each)


async def test_a_record_too_big_is_named_and_those_before_it_are_published(nsqd: Daemon) -> None:
    with pytest.raises(BadMessage) as caught:
        await send(nsqd.tcp, "big", [b"a", b"b", b"x" * 101, b"c"])
    assert str(caught.value) == "E_BAD_MESSAGE PUB message too big 101 > 100"
    assert published(nsqd, "big") == 2


async def test_a_bad_topic_is_refused_in_the_words_for_one_record(nsqd: Daemon) -> None:
    with pytest.raises(BadTopic) as caught:
        await send(nsqd.tcp, "bad!", [b"a", b"b"])
    assert str(caught.value) == 'E_BAD_TOPIC PUB topic name "bad!" is not valid'
