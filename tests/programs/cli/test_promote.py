"""``penstock promote`` against real nodes: who may become primary, and what is said about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from penstock.cli import promote
from penstock.cluster.blocking import Daemon
from penstock.testing.daemons import Daemon as Nsqd
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.copies import ask, cut_relay, publish, until, until_copied
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import Commands


def end(daemon: Nsqd) -> int:
    """The end of the log of topic t, as readers see it."""
    return int(ask(daemon, "GET", "/log/offsets?topic=t")[1]["queues"][0]["end"])


@contextmanager
def two_copies() -> Iterator[tuple[Nsqd, Nsqd, Nsqd]]:
    """A primary with a message, and two followers that have it."""
    with (
        run_nsqd() as primary,
        run_nsqd(f"--follow={primary.http}") as one,
        run_nsqd(f"--follow={primary.http}") as other,
    ):
        publish(primary, "t", "1")
        for follower in (one, other):
            until_copied(primary, follower, "t")
            until(follower, whole=True, lag_messages=0, error=None)
        yield primary, one, other


def test_a_change_over_and_a_promotion_without_the_old_primary(command: Commands) -> None:
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        publish(a, "t", "1", "2")
        until_copied(a, b, "t")
        refused = command("promote", a.http)
        assert "is primary already, in epoch 1" in refused.out
        done = command("promote", b.http)
        assert done.code == 0, done.err
        assert f"{b.http} is primary in epoch 2" in done.out
        assert f"{a.http} has stepped back, and all that it had is here" in done.out
        publish(b, "t", "3")
        a.flags.append(f"--follow={b.http}")
        a.restart()
        until_copied(b, a, "t")
        b.kill()
        done = command("promote", a.http)
        assert done.code == 0, done.err
        assert f"{a.http} is primary in epoch 3" in done.out
        assert f"{b.http} could not be reached" in done.out
        refused = command("promote", f"--nsqd-http-address={b.http}")
        assert refused.code == 1
        assert "penstock:" in refused.err
        publish(a, "t", "4")
        assert ask(a, "GET", "/log/offsets?topic=t")[1]["queues"][0]["end"] == 4
        b.start()
        until(b, role="follower", epoch=3, whole=True)  # the flag that it was started with


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("127.0.0.1", 2, "ADDRESS 127.0.0.1: address 127.0.0.1: missing port in address"),
        ("https://127.0.0.1:x", 2, "address 127.0.0.1:x: no such port; give host:port"),
        ("ftp://127.0.0.1:4151", 2, "unknown scheme ftp; give host:port"),
        ("a b:1", 1, "'a b'"),
    ],
)
def test_a_wrong_address_is_told(command: Commands, address: str, code: int, said: str) -> None:
    ended = command("promote", address)
    assert ended.code == code
    assert ended.err.startswith("penstock: ")
    assert said in ended.err


def test_another_program_is_not_promoted(command: Commands) -> None:
    with run_nsqlookupd() as lookupd:
        ended = command("promote", lookupd.http)
    assert ended.code == 1
    assert ended.err.startswith(f"penstock: {lookupd.http} cannot be promoted: give the HTTP")


def test_a_copy_that_is_not_whole_needs_force(command: Commands) -> None:
    """Its link breaks in its first copy; the primary goes on, and is not asked to step back."""
    with run_nsqd() as a:
        for number in range(9):
            assert ask(a, "POST", "/pub?topic=t", b"%d" % number * 1_000_000)[0] == 200
        with cut_relay(a.http, 6_000_000) as relay, run_nsqd(f"--follow={relay}") as b:
            shown = until(b, error=f"{relay} cannot be reached: connection refused")
            assert (shown["whole"], shown["was_whole"]) == (False, False)
            refused = command("promote", b.http)
            assert refused.code == 1
            lacks = shown["lag_messages"]
            assert f"at least {lacks} messages ({lacks} of t), and topics" in refused.err
            status, answer = ask(b, "POST", "/replication/promote")
            assert (status, answer["message"], answer["behind"]) == (409, "NOT_WHOLE", {"t": lacks})
            until(b, role="follower")
            publish(a, "t", "the primary has not stepped back")
            done = command("promote", b.http, "--force")
            assert done.code == 0, done.err
            assert f"{lacks} messages are not here" in done.out


def test_a_copy_that_was_left_behind_needs_force(command: Commands) -> None:
    """It is cut off, and the primary acknowledges without it, as it was told to."""
    goes_on = ("--replicas-acked=1", "--replicas-missing=go-on")
    with run_nsqd(*goes_on) as a, run_nsqd(f"--follow={a.http}") as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        os.kill(b.pid, signal.SIGSTOP)
        until(a, replicas_in_force=0)
        publish(a, "t", "2", "3")
        a.kill()
        os.kill(b.pid, signal.SIGCONT)
        until(b, error=f"{a.http} cannot be reached: connection refused", was_whole=True)
        refused = command("promote", b.http)
        assert refused.code == 1
        assert "which is beyond --promote-max-lag=1s" in refused.err
        status, answer = ask(b, "POST", "/replication/promote")
        assert (status, answer["message"]) == (409, "LAGS")
        assert "beyond --promote-max-lag=1s" in until(b, role="follower")["needs_force"]
        done = command("promote", b.http, "--force")
        assert done.code == 0, done.err
        assert f"what {a.http} acknowledged in its last " in done.out


def test_a_bound_of_one_s_own(command: Commands) -> None:
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}", "--promote-max-lag=1h") as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        os.kill(b.pid, signal.SIGSTOP)
        time.sleep(2)
        a.kill()
        os.kill(b.pid, signal.SIGCONT)
        done = command("promote", b.http)
        assert done.code == 0, done.err


def test_after_a_promotion_with_copies_that_were_awaited_no_message_is_missed(
    command: Commands,
) -> None:
    acked = "--replicas-acked=1"
    with run_nsqd(acked) as a, run_nsqd(acked, f"--follow={a.http}") as b:
        until(a, replicas_in_force=1)
        publish(a, "t", "1")
        until_copied(a, b, "t")
        a.kill()
        done = command("promote", b.http)
        assert done.code == 0, done.err
        known = f"all that {a.http} had acknowledged is here: its OKs waited for this copy\n"
        assert known in done.out
        assert "may not be here" not in done.out


def test_the_hooks_of_an_operator_are_asked_before_and_told_after(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the answer is awaited for as long as they may take."""
    allowed, told = tmp_path / "allowed", tmp_path / "told"
    before = f"--promote-before-hook=echo epoch=5; test -e {allowed} || (echo c has it; exit 4)"
    after = f'--promote-after-hook=echo "$PENSTOCK_EPOCH $PENSTOCK_OLD_PRIMARY" >>{told}; exit 1'
    hooks = (before, after, "--promote-hook-timeout=60s")
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}", *hooks) as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        refused = command("promote", b.http)
        assert refused.code == 1
        assert "--promote-before-hook ended with exit code 4: c has it" in refused.err
        publish(a, "t", "the primary was not asked to step back")
        until_copied(a, b, "t")
        allowed.touch()
        waits: list[float] = []

        class Noted(Daemon):
            def __init__(self, address: str, seconds: float, **more: Any) -> None:
                waits.append(seconds)
                super().__init__(address, seconds, **more)

        monkeypatch.setattr(promote, "Daemon", Noted)
        done = command("promote", b.http)
        assert waits[1] >= promote.ASK_S + 60, "the hooks' time is added"
        assert done.code == 0, done.err
        assert f"{b.http} is primary in epoch 5" in done.out
        b.wait_for("but --promote-after-hook ended with exit code 1")
        until(a, role="fenced", fenced_epoch=5)
        b.restart()
        until(b, role="primary", epoch=5)
        assert told.read_text() == f"5 {a.http}\n", "once for a promotion"


def test_of_two_followers_the_one_wins_for_which_the_primary_steps_back(command: Commands) -> None:
    with two_copies() as (a, b, c):
        assert command("promote", b.http).code == 0
        refused = command("promote", c.http)
        assert refused.code == 1
        assert f"{a.http} has stepped back for {b.http} already, in epoch 2" in refused.err
        until(c, role="follower")
        b.kill()
        done = command("promote", c.http, "--force")
        assert done.code == 0, done.err
        assert f"{c.http} is primary in epoch 3" in done.out
        until(a, role="fenced", fenced_epoch=3, primary=c.http)


def test_a_follower_of_a_node_that_has_stepped_back_follows_nobody(command: Commands) -> None:
    """It is no copy of the new primary: what that acknowledges is not here."""
    with two_copies() as (a, b, c):
        assert command("promote", c.http).code == 0
        fenced = (f"{a.http} is fenced: {c.http} is primary in epoch 2, and is to be followed "
                  "instead")  # fmt: skip
        shown = until(b, error=fenced, whole=False, was_whole=False)
        assert shown["lag_seconds"] > 0, "since before the other stepped back"
        assert ask(b, "GET", "/ping") == (500, f"NOK - cannot follow: {fenced}".encode())
        publish(c, "t", "2")
        a.kill()
        b.restart()
        until(b, error=f"{a.http} cannot be reached: connection refused")
        refused = command("promote", b.http)
        assert refused.code == 1
        assert f"{a.http} has stepped back for {c.http} already, in epoch 2" in refused.err
        done = command("promote", b.http, "--force")
        assert done.code == 0, done.err
        assert f"{b.http} is primary in epoch 3" in done.out, "2 is the other's"


def test_a_follower_of_a_node_that_copies_its_successor_follows_nobody(command: Commands) -> None:
    """Nobody has told it of the promotion but the old primary, which is a copy itself by then."""
    with two_copies() as (a, b, c):
        history = until(c, whole=True)["history"]
        a.kill()
        assert command("promote", c.http).code == 0
        a.flags.append(f"--follow={c.http}")
        a.start()
        until(a, role="follower", epoch=2, whole=True)
        fenced = (f"{a.http} is fenced: {c.http} is primary in epoch 2, and is to be followed "
                  "instead")  # fmt: skip
        until(b, error=fenced, whole=False, was_whole=False)
        fence = {"history": history, "epoch": 2, "address": b.http}
        status, answer = ask(a, "POST", "/replication/fence", json.dumps(fence).encode())
        assert (status, answer["message"], answer["primary"]) == (409, "STEPPED_BACK", c.http), (
            "one that has not heard of epoch 2 yet is not promoted in it"
        )
        c.kill()
        refused = command("promote", b.http)
        assert refused.code == 1
        assert f"{a.http} has stepped back for {c.http} already, in epoch 2" in refused.err
        done = command("promote", b.http, "--force")
        assert done.code == 0, done.err
        assert f"{b.http} is primary in epoch 3" in done.out, "2 is the other's"


def test_a_follower_goes_over_to_the_new_primary(command: Commands) -> None:
    with two_copies() as (a, b, c):
        assert command("promote", c.http).code == 0
        until(b, whole=False)
        b.flags[b.flags.index(f"--follow={a.http}")] = f"--follow={c.http}"
        b.restart()
        publish(c, "t", "2")
        until_copied(c, b, "t")
        c.kill()
        done = command("promote", b.http)
        assert done.code == 0, done.err
        assert f"{b.http} is primary in epoch 3" in done.out


def test_the_command_says_what_it_cannot_know(command: Commands) -> None:
    """Of copies that were whole when their primary died, which one was restarted since."""
    with two_copies() as (a, b, c):
        a.kill()
        b.restart()
        until(b, whole=False, was_whole=True, lag_seconds=None)
        known = (f"this copy was whole when it last heard from {a.http}, before it was started: "
                 "how many messages are not here is not known\n")  # fmt: skip
        refused = command("promote", b.http)
        assert refused.code == 1
        assert f"it never had all that {a.http} had since it was started" in refused.err
        for follower in (b, c):
            done = command("promote", follower.http, *["--force"] * (follower is b))
            assert done.code == 0, done.err
            assert (known in done.out) == (follower is b)
            assert f"whether another follower of {a.http} was promoted too cannot be" in done.out


@pytest.mark.parametrize("is_new", [False, True], ids=["fenced before", "with a new disk"])
def test_an_old_primary_that_follows_already_is_no_hindrance(
    command: Commands, is_new: bool
) -> None:
    """A promotion that failed half-way, or a disk that was replaced, leaves two followers."""
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        history = until(b, role="follower")["history"]
        if is_new:
            a.kill()
            shutil.rmtree(a.data_path)
            a.data_path.mkdir()
        else:
            fence = {"history": history, "epoch": 2, "address": b.http}
            assert ask(a, "POST", "/replication/fence", json.dumps(fence).encode())[0] == 200
            until(a, role="fenced")
            a.kill()
        a.flags.append(f"--follow={b.http}")
        a.start()
        until(a, role="follower")
        done = command("promote", b.http)
        assert done.code == 0, done.err
        until_copied(b, a, "t")
        assert until(a)["history"] == history


class OddNode(BaseHTTPRequestHandler):
    """What answers as a follower does, with texts and numbers that make no sense."""

    role: ClassVar[str]

    def do_GET(self) -> None:
        self._answer({"role": self.role, "epoch": [], "promotion_seconds": "soon"})

    def do_POST(self) -> None:
        type(self).role = "primary"
        self._answer({"lag_seconds": "few", "lag_messages": 1e400, "old_primary_told": 3})

    def _answer(self, values: dict[str, Any]) -> None:
        body = json.dumps(values).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_node_that_tells_no_numbers(command: Commands) -> None:
    OddNode.role = "follower"
    with ThreadingHTTPServer(("127.0.0.1", 0), OddNode) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        done = command("promote", f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("how many messages are not here is not known\n"
                             "it takes publishes now\n")  # fmt: skip


def test_an_ok_waits_for_as_many_copies_as_are_wanted_and_the_one_with_most_is_promoted(
    command: Commands,
) -> None:
    """One of two copies stands still: then an OK at 2 is refused, and one at 1 waits for the other,
    which is promoted of both.
    """
    two, one = "--replicas-acked=2", "--replicas-acked=1"
    with (
        run_nsqd(two, "--replicas-timeout=2s") as a,
        run_nsqd(f"--follow={a.http}") as b,
        run_nsqd(f"--follow={a.http}") as c,
    ):
        wait_until(lambda: ask(a, "POST", "/pub?topic=t", b"both")[0] == 200, a.log)
        assert min(end(b), end(c)) >= 1, "both have it by now"
        os.kill(c.pid, signal.SIGSTOP)
        try:
            status, answer = ask(a, "POST", "/pub?topic=t", b"one has it")
            assert (status, answer["message"]) == (503, "NOT_COPIED")
            a.flags[a.flags.index(two)] = one
            a.restart()
            wait_until(lambda: ask(a, "POST", "/pub?topic=t", b"one again")[0] == 200, a.log)
            count = end(b)
            assert count >= 2, "the message that was refused may be there"
            a.kill()
        finally:
            os.kill(c.pid, signal.SIGCONT)
        until(b, error=f"{a.http} cannot be reached: connection refused")
        until(c, error=f"{a.http} cannot be reached: connection refused")
        done = command("promote", a.http, c.http, b.http)
        assert done.code == 0, done.err
        assert f"{c.http} has {end(c)} message" in done.out
        assert end(c) < count
        assert f"{b.http} has {count} messages\n" in done.out
        assert f"{b.http} is primary in epoch 2" in done.out
        assert end(b) == count
        refused = command("promote", a.http, b.http)
        assert refused.code == 1
        assert "none of these nodes is a follower that answers" in refused.err
