"""Followers that are none: they read nothing, ask for nonsense, come by the thousand."""

from __future__ import annotations

import json
import random
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from typing import Any

from penstock.core.units import SECOND
from penstock.node.followers import FOLLOWERS_MAX
from penstock.replication.messages import (
    ADDRESS_MAX,
    TOPICS_MAX,
    VERSION,
    Ack,
    Fetch,
    FollowerTopic,
    Hello,
    decode_parts,
    encode_ack,
    encode_fetch,
)
from penstock.replication.primary import STREAMS_MAX
from penstock.replication.stream import SILENT_NS
from penstock.testing.daemons import run_nsqd
from tests.copies import until

from .conftest import PATIENCE_S, Victim, ask, publish, running, wait_until

MIB = 1024 * 1024
BUDGET = 16 * MIB
CROWD = 64
REQUESTS = 500


def fetch_of(hello: Hello, *held: FollowerTopic, address: str = "") -> bytes:
    """The body of a request to this run of a primary."""
    return encode_fetch(Fetch(VERSION, 1, hello.history, hello.epoch, hello.run, list(held), {},
                              1 << 30, address))  # fmt: skip


def request(body: bytes) -> bytes:
    """The bytes of a whole request."""
    head = f"POST /replication/fetch HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Asking:
    """A stranger that asks as followers do, reads the first answer, and goes."""

    def __init__(self, victim: Victim) -> None:
        self._port = victim.daemon.http_port

    def ask(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the first answer."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/replication/fetch", body)
            answer = connection.getresponse()
            if answer.status != 200:
                return answer.status, answer.read()
            return 200, answer.read(int.from_bytes(answer.read(4), "little"))
        finally:
            connection.close()

    def hello(self) -> Hello:
        status, answer = self.ask(fetch_of(Hello("", "", 0)))
        assert status == 200
        head = next(iter(decode_parts(answer))).head
        assert isinstance(head, Hello)
        return head


def code(answer: bytes) -> Any:
    return json.loads(answer)["message"]


def test_followers_that_read_nothing_cost_a_bounded_buffer_and_lose_their_place(
    stack: ExitStack,
) -> None:
    # The true follower may be kept from asking for longer than the 3 s after which it is none.
    lenient = ("--replicas-missing=go-on", "--replicas-timeout=60s")
    with running(f"--max-answer-memory={BUDGET}", "--replicas-acked=1", *lenient) as victim:
        flag = f"--follow={victim.daemon.http}"
        true = stack.enter_context(run_nsqd(flag))
        until(victim.daemon, replicas_in_force=1)
        with victim.connect() as producer:
            for _ in range(8):
                assert ask(producer, publish("kept", bytes(MIB))) == b"OK"
        until(true, whole=True, error=None)
        true.kill()
        hello = Asking(victim).hello()
        before = victim.rss
        port = victim.daemon.http_port
        socks = [
            stack.enter_context(
                victim.connect_slowly_reading(
                    port, request(fetch_of(hello, address=f"none:{number}"))
                )
            )
            for number in range(CROWD)
        ]
        for sock in socks:
            assert sock.recv(12)[9:] in (b"200", b"503")
        assert victim.rss - before < 3 * BUDGET  # 1 GiB without a bound
        assert victim.get("/stats?format=json")["memory"]["answer_bytes"] <= 2 * BUDGET
        # None of them says anything, so none of them follows, and no OK waits for one.
        until(victim.daemon, replicas_in_force=0)
        for sock in socks:
            sock.close()
        true.start()
        until(true, whole=True, error=None)
        until(victim.daemon, replicas_in_force=1)
        victim.check_alive()


def test_what_is_no_request_of_a_follower_is_refused() -> None:
    rng = random.Random(1)
    with running() as victim:
        asking = Asking(victim)
        hello = asking.hello()
        good = fetch_of(hello, FollowerTopic("t", 1, 2, 3, "0", 4))
        before = victim.rss
        many = [FollowerTopic("", 0, 0, 0, "", 0)] * (TOPICS_MAX + 1)
        for body in (b"", b"\xc1", b"{}", good[:-1], good + b"x", rng.randbytes(MIB),
                     b"\x91" * MIB, fetch_of(hello, address="a" * (ADDRESS_MAX + 1)),
                     fetch_of(hello, *many)):  # fmt: skip
            status, answer = asking.ask(body)
            assert (status, code(answer)) == (400, "INVALID_BODY"), body[:20]
        for place in range(len(good)):
            spoiled = bytearray(good)
            spoiled[place] ^= 1 << rng.randrange(8)
            assert asking.ask(bytes(spoiled))[0] in (200, 400, 409, 503)
        for _ in range(5):
            assert asking.ask(fetch_of(hello, *many[1:]))[0] == 200
        assert victim.rss - before < 64 * MIB
        victim.check_alive()


def test_thousands_of_requests_keep_no_memory_and_a_true_follower_its_place() -> None:
    with running() as victim, run_nsqd(f"--follow={victim.daemon.http}") as true:
        until(true, whole=True)
        asking = Asking(victim)
        hello = asking.hello()
        before = victim.rss
        taken = 0
        for number in range(REQUESTS):
            status, answer = asking.ask(fetch_of(hello, address=f"none-{number}:1"))
            taken += status == 200
            assert status == 200 or (status, code(answer)) == (503, "TOO_MANY_FOLLOWERS")
        assert taken < FOLLOWERS_MAX
        assert victim.rss - before < 8 * MIB
        shown = [each["address"] for each in victim.get("/replication")["followers"]]
        assert true.http in shown
        assert len(shown) <= FOLLOWERS_MAX
        assert len((victim.daemon.data_path / "replication.json").read_bytes()) < 8192
        with victim.connect() as producer:
            assert ask(producer, publish("t", b"x")) == b"OK"
        until(true, whole=True, topics=1, error=None)
        victim.check_alive()


def test_those_who_follow_are_counted_and_forgotten_when_they_go(stack: ExitStack) -> None:
    with running("--replicas-acked=1", "--replicas-missing=go-on") as victim:
        following = request(fetch_of(Asking(victim).hello(), address="none:1"))
        socks = [stack.enter_context(victim.connect_http()) for _ in range(2 * STREAMS_MAX)]
        for sock in socks:
            sock.sendall(following)
        refused = sum(b" 503 " in sock.recv(4096) for sock in socks)
        assert refused == STREAMS_MAX
        for sock in socks:
            sock.close()
        until(victim.daemon, replicas_in_force=0)
        assert wait_until(lambda: victim.open_files < 64)
        victim.check_alive()


def test_a_follower_that_says_what_it_was_not_asked_is_let_go(stack: ExitStack) -> None:
    """More words than answers, one out of turn, none at all, and one without an end."""
    with running() as victim:
        hello = Asking(victim).hello()
        for said in (
            encode_ack(Ack(2, {})) + encode_ack(Ack(3, {})),
            encode_ack(Ack(1, {})),
            b"\4\0\0\0none",
            b"\xff" * 4,
        ):
            sock = stack.enter_context(victim.connect_http())
            sock.sendall(request(fetch_of(hello, address="none:1")))
            assert b" 200 " in sock.recv(4096)
            began = time.monotonic()
            sock.sendall(said)
            with suppress(ConnectionResetError):
                while sock.recv(4096):
                    pass
            assert time.monotonic() - began < SILENT_NS / SECOND, "at once"
        victim.check_alive()
