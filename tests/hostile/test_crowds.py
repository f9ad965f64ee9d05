"""Many connections: silent ones, storms of short ones, more than there are file handles."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest

from .conftest import IMPATIENT, Victim, ask, publish, read_to_end, running, wait_until

CROWD = 1000
STORM = 2000


def test_silent_connections_hold_up_nobody_and_are_cut_off() -> None:
    with running(IMPATIENT) as victim:
        victim.check_alive()
        before, rss = victim.open_files, victim.rss
        with ExitStack() as opened:
            crowd = [opened.enter_context(victim.connect(b"")) for _ in range(CROWD)]
            victim.check_alive()
            assert victim.rss - rss < CROWD * 40_000
            assert all(read_to_end(sock) == b"" for sock in crowd)
        assert wait_until(lambda: victim.open_files <= before)
        victim.check_alive()


def storm(victim: Victim, count: int) -> None:
    """Connections one after the other, each gone in another way."""
    for number in range(count):
        kind = number % 5
        if kind == 4:
            with victim.connect_http(b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"):
                pass
            continue
        with victim.connect(
            (b"", b"  V", b"  V2", b"  V2SUB storm c#ephemeral\nRDY 5\n")[kind]
        ) as s:
            if kind == 2:
                assert ask(s, publish("storm", b"x")) == b"OK"
            if number % 7 == 0:  # with a reset instead of an end
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_a_storm_of_connections_leaves_nothing_behind() -> None:
    with running() as victim:
        storm(victim, STORM // 5)  # whatever is kept for good is there now
        assert wait_until(lambda: victim.clients() == 0)
        files, rss = victim.open_files, victim.rss
        storm(victim, STORM)
        assert wait_until(lambda: victim.clients() == 0)
        assert wait_until(lambda: victim.open_files <= files)
        # A session costs some 10 kB: were one in ten kept, this would be 5 MB more.
        assert victim.rss - rss < 4_000_000
        victim.check_alive()


@pytest.mark.parametrize("loop", ["", "asyncio"])
def test_more_connections_than_file_handles(loop: str) -> None:
    with running(files=300, loop=loop) as victim, ExitStack() as opened:
        kept = opened.enter_context(victim.connect())
        assert ask(kept, publish("before", b"x")) == b"OK"
        crowd = [opened.enter_context(victim.connect(b"")) for _ in range(400)]
        assert wait_until(lambda: sum(map(_is_closed, crowd)) > 100)
        assert sum(map(_is_closed, crowd)) < 400
        # Who is in is served, and files can still be opened: a new topic has some.
        assert ask(kept, publish("meanwhile", b"x")) == b"OK"
        assert wait_until(lambda: _rests(victim)), "it spins"
        log = victim.daemon.log()
        assert log.count("too many open files") == 1
        assert len(log) < 200 * 400, "the log is flooded"
        opened.close()
        assert wait_until(lambda: _serves(victim))
        victim.check_alive()


def _rests(victim: Victim) -> bool:
    """Whether it does little for a second; at first it may have something left to do."""
    before = victim.cpu_s
    time.sleep(1)
    return victim.cpu_s - before < 0.3


def _is_closed(sock: socket.socket) -> bool:
    sock.settimeout(0.01)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def _serves(victim: Victim) -> bool:
    try:
        with victim.connect() as sock:
            return ask(sock, publish("after", b"x")) == b"OK"
    except ConnectionError:
        return False
