"""Followers that are none: they read nothing, ask for nonsense, come by the thousand."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

from penstock.node.followers import FOLLOWERS_MAX
from penstock.replication.messages import (
    ADDRESS_MAX,
    TOPICS_MAX,
    VERSION,
    Fetch,
    FollowerTopic,
    Hello,
    decode_parts,
    encode_fetch,
)
from penstock.testing.daemons import run_nsqd
from tests.copies import until

from .conftest import PATIENCE_S, Victim, ask, publish, running, wait_until

MIB = 1024 * 1024
BUDGET = 16 * MIB
CROWD = 64
PIPELINED = 4
REQUESTS = 500
WAITING_MAX = 32


def fetch_of(hello: Hello, *held: FollowerTopic, hurry: bool = True, address: str = "") -> bytes:
    """The body of a request to this run of a primary."""
    return encode_fetch(Fetch(VERSION, 1, hello.history, hello.epoch, hello.run, list(held), {},
                              1 << 30, hurry, address))  # fmt: skip


def request(body: bytes) -> bytes:
    """The bytes of a whole request."""
    head = f"POST /replication/fetch HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Asking:
    """A connection that asks as followers do, and reads what it gets."""

    def __init__(self, victim: Victim) -> None:
        self._connection = HTTPConnection("127.0.0.1", victim.daemon.http_port, timeout=PATIENCE_S)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of an answer."""
        self._connection.request("POST", "/replication/fetch", body)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

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
        with Asking(victim) as asking:
            hello = asking.hello()
        before = victim.rss
        port = victim.daemon.http_port
        socks = [
            stack.enter_context(
                victim.connect_slowly_reading(
                    port, PIPELINED * request(fetch_of(hello, address=f"none:{number}"))
                )
            )
            for number in range(CROWD)
        ]
        for sock in socks:
            assert sock.recv(12)[9:] in (b"200", b"503")
        assert victim.rss - before < 3 * BUDGET  # 1 GiB without a bound
        assert victim.get("/stats?format=json")["memory"]["answer_bytes"] <= 2 * BUDGET
        # None of them asks again, so none of them follows, and no OK waits for one.
        until(victim.daemon, replicas_in_force=0)
        for sock in socks:
            sock.close()
        true.start()
        until(true, whole=True, error=None)
        until(victim.daemon, replicas_in_force=1)
        victim.check_alive()


def test_what_is_no_request_of_a_follower_is_refused() -> None:
    rng = random.Random(1)
    with running() as victim, Asking(victim) as asking:
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
            assert asking.ask(bytes(spoiled))[0] in (200, 400, 409)
        for _ in range(5):
            assert asking.ask(fetch_of(hello, *many[1:]))[0] == 200
        assert victim.rss - before < 64 * MIB
        victim.check_alive()


def test_thousands_of_requests_keep_no_memory_and_a_true_follower_its_place() -> None:
    with running() as victim, run_nsqd(f"--follow={victim.daemon.http}") as true:
        until(true, whole=True)
        with Asking(victim) as asking:
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


def test_those_who_wait_for_news_are_counted_and_forgotten_when_they_go(stack: ExitStack) -> None:
    with running("--replicas-acked=1", "--replicas-missing=go-on") as victim:
        with Asking(victim) as asking:
            hello = asking.hello()
        waiting = request(fetch_of(hello, hurry=False, address="none:1"))
        for _ in range(20):  # a slow machine answers the first ones before the last ones ask
            socks = [stack.enter_context(victim.connect_http()) for _ in range(2 * WAITING_MAX)]
            for sock in socks:
                sock.sendall(waiting)
            refused = sum(b" 503 " in sock.recv(4096) for sock in socks)
            if refused:
                break
            for sock in socks:
                sock.close()
        assert 0 < refused <= WAITING_MAX
        for sock in socks:
            sock.close()
        until(victim.daemon, replicas_in_force=0)
        assert wait_until(lambda: victim.open_files < 64)
        victim.check_alive()
