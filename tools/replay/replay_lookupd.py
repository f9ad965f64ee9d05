"""Replays what a real nsqlookupd was seen to do against the nsqlookupd under test.

TCP cases are independent; HTTP cases run in file order on one daemon, with the producers that their
`setup` tells of in words and `BEFORE` repeats as actions.

By hand: `python -m tools.replay.replay_lookupd [--nsqlookupd PROGRAM] [--samples DIR]`
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.testing.daemons import Daemon, run_nsqlookupd
from tools.harness.samples import RECORDINGS, Case, load, matches

TCP_FILE = "lookupd-tcp.jsonl"
HTTP_FILE = "lookupd-http.jsonl"

DIFFERENCES = {
    "IDENTIFY negative size -1": "the original dies; we answer E_BAD_BODY and close the connection",
    "wildcard channels": "the original takes * for every topic; we take it for a name",
    "wildcard lookup": "the original takes * for every topic; we take it for a name",
    "lookup after wildcard tombstone": "tombstoning the topic * must not hide every topic's nsqd",
    "topics after wildcard delete": "deleting the topic * must not delete every topic",
    "lookup bracketed": "nsqadmin sends [::1]:4151, so a tombstone takes the brackets too",
    "info": "ours also tells Penstock's own version",
    "pprof index": "a page about Go's runtime; ours is about Python's, and has a length",
}
"""Cases in which Penstock differs on purpose: name -> reason."""

PEER = {
    "hostname": "h1",
    "broadcast_address": "127.0.0.1",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
    "topology_zone": "z",
    "topology_region": "r",
}
TIMEOUT_S = 60.0
TRIES_MAX = 5
LATE_S = 0.3
"""A run of the HTTP cases in which one took longer proves nothing: producers and tombstones are
there for seconds only. It is played again.
"""
PAUSES_S = {"lookup tombstone expired": 2.2, "lookup inactive": 3.2}
QUIET_S = 0.02
"""How long an open connection is watched for an end that should not come."""

_HEADERS = (
    "content-type",
    "x-nsq-content-type",
    "allow",
    "location",
    "content-length",
    "transfer-encoding",
)


class Peer:
    """A connection to nsqlookupd, as an nsqd has one."""

    def __init__(self, daemon: Daemon, magic: bytes = b"  V1") -> None:
        self._socket = socket.create_connection(("127.0.0.1", daemon.tcp_port), TIMEOUT_S)
        self._buffer = b""
        if magic:
            self.send(magic)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def half_close(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def read_frame(self) -> tuple[bytes, bytes]:
        """The next answer: its length's four bytes and its data; EOFError when none comes."""
        size = self._read(4)
        return size, self._read(struct.unpack(">i", size)[0])

    def is_open(self) -> bool:
        """Whether the connection stays, and silent."""
        self._socket.settimeout(QUIET_S)
        try:
            return not self._buffer and self._socket.recv(1) is None
        except TimeoutError:
            return True
        except ConnectionError:
            return False

    def is_ended(self) -> bool:
        """Whether the server ends the connection without another word."""
        try:
            return not self._buffer and self._socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def identify(self, **changes: object) -> Peer:
        body = json.dumps({**PEER, **changes}).encode()
        self.send(b"IDENTIFY\n" + struct.pack(">i", len(body)) + body)
        self.read_frame()
        return self

    def command(self, line: str) -> None:
        """Sends a command that must be answered OK."""
        self.send(line.encode() + b"\n")
        _, data = self.read_frame()
        assert data == b"OK", data

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._buffer += data
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data


Outcomes = dict[str, str]
"""Name of a case -> what was wrong, empty when it held."""


def replay_tcp(file: Path, program: str | None = None) -> Outcomes:
    """Replays the TCP cases."""
    with run_nsqlookupd(program=program) as daemon:
        return {case["name"]: _tcp_case(case, daemon) for case in load(file)}


def _tcp_case(case: Case, daemon: Daemon) -> str:
    prepared = bool(case["setup"])
    peer = Peer(daemon, b"  V1" if prepared else b"")
    try:
        if prepared:
            peer.identify()
        peer.send(_bytes_to_send(case["request"]))
        if "half-close" in case["request"].get("then", ""):
            peer.half_close()
        return _tcp_problem(case, peer, daemon)
    finally:
        peer.close()


def _bytes_to_send(request: dict[str, Any]) -> bytes:
    if "bytes_latin1" in request:
        data: bytes = request["bytes_latin1"].encode("latin-1")
        return data
    assert request["bytes"] == '"  V1" + 200000 x "A" + LF'
    return b"  V1" + b"A" * 200_000 + b"\n"


def _tcp_problem(case: Case, peer: Peer, daemon: Daemon) -> str:
    values = {
        "host": os.uname().nodename,
        "lookupd_tcp_port": str(daemon.tcp_port),
        "lookupd_http_port": str(daemon.http_port),
    }
    first = case["expect"].get("raw_hex_first_4")
    for number, expected in enumerate(case["expect"]["frames"]):
        expected = expected.replace("<the 200000 bytes>", "A" * 200_000)
        try:
            size, data = peer.read_frame()
        except (EOFError, OSError) as error:
            return f"no answer {number}: {error!r}"
        if number == 0 and first and size.hex() != first:
            return f"first bytes {size.hex()} instead of {first}"
        if not matches(expected, data.decode("utf-8", "replace"), values):
            return f"answer {number} is {data[:300]!r} instead of {expected[:300]!r}"
    if case["expect"]["connection"] == "open":
        return "" if peer.is_open() else "the connection did not stay open and silent"
    return "" if peer.is_ended() else "the connection was not ended"


class World:
    """The daemon of the HTTP cases and the nsqds that come and go."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.peers: dict[str, Peer] = {}

    def join(self, name: str, *lines: str, **changes: object) -> None:
        """An nsqd connects, identifies itself and sends some commands."""
        self.peers[name] = Peer(self.daemon).identify(**changes)
        self.tell(name, *lines)

    def tell(self, name: str, *lines: str) -> None:
        for line in lines:
            self.peers[name].command(line)

    def leave(self, name: str) -> None:
        """An nsqd disconnects; returns when nsqlookupd has noticed."""
        peers = len(self.clients())
        self.peers.pop(name).close()
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.clients()) >= peers and time.monotonic() < deadline:
            time.sleep(0.005)

    def clients(self) -> list[Any]:
        _, _, body = self.ask("GET", "/debug")
        entries: list[Any] = json.loads(body).get("client::", [])
        return entries

    def ask(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], str]:
        """One request on a connection of its own: status, the compared headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, TIMEOUT_S)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            compared = {name: found[name] for name in _HEADERS if name in found}
            return answer.status, compared, answer.read().decode()
        finally:
            connection.close()

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()


def _expire_tombstone(world: World) -> None:
    world.ask("POST", "/topic/tombstone?topic=t1&node=127.0.0.1:4151")
    for _ in range(2):
        time.sleep(1.1)
        world.tell("a", "PING")  # after 3 s without one it would be gone


def _disconnect_ephemeral(world: World) -> None:
    world.tell("b", "REGISTER tf#ephemeral cf#ephemeral")
    world.leave("b")


BEFORE: dict[str, Callable[[World], None]] = {
    "lookup live": lambda world: world.join("a", "REGISTER t1 c1"),
    "lookup tombstoned and re-registered": lambda world: world.tell("a", "REGISTER t1 c1"),
    "lookup after unregister+register": lambda world: world.tell(
        "a", "UNREGISTER t1", "REGISTER t1"
    ),
    "lookup tombstone expired": _expire_tombstone,
    "lookup inactive": lambda world: time.sleep(3.2),
    "lookup active again": lambda world: world.tell("a", "PING"),
    "lookup after disconnect": lambda world: world.leave("a"),
    "topics with ephemeral": lambda world: world.join("b", "REGISTER te#ephemeral ce#ephemeral"),
    "ephemeral channel unregistered": lambda world: world.tell(
        "b", "UNREGISTER te#ephemeral ce#ephemeral"
    ),
    "ephemeral topic unregistered": lambda world: world.tell("b", "UNREGISTER te#ephemeral"),
    "ephemeral after disconnect: key stays": _disconnect_ephemeral,
    "unregister topic removes its channel producers": lambda world: world.join(
        "c", "REGISTER tg cg", "UNREGISTER tg"
    ),
    "wildcard channels": lambda world: world.tell("c", "REGISTER tw cw"),
    "tombstone bracketed IPv6: no match": lambda world: world.join(
        "d", "REGISTER t6", broadcast_address="::1"
    ),
    "topic delete of a registered topic": lambda world: world.tell("c", "REGISTER tx cx"),
    "lookup after a new REGISTER": lambda world: world.tell("c", "REGISTER tx"),
}
"""What happens before a case, beside the requests of the cases before it."""


def replay_http(file: Path, program: str | None = None) -> Outcomes:
    """Replays the HTTP cases, which all have the same flags."""
    cases = load(file)
    (flags,) = {case["flags"] for case in cases}
    for _ in range(TRIES_MAX):
        outcomes, slowest_s = _replay_http(cases, flags.split(), program)
        is_as_wanted = all(bool(each) == (name in DIFFERENCES) for name, each in outcomes.items())
        if is_as_wanted or slowest_s < LATE_S:
            break
    return outcomes


def _replay_http(
    cases: list[Case], flags: list[str], program: str | None
) -> tuple[Outcomes, float]:
    """The outcomes of a run, and how long it took the slowest case, pauses left out."""
    outcomes: Outcomes = {}
    slowest_s = 0.0
    with ExitStack() as stack:
        daemon = stack.enter_context(run_nsqlookupd(*flags, program=program))
        world = World(daemon)
        stack.callback(world.close)
        for case in cases:
            begun = time.monotonic()
            outcomes[case["name"]] = _http_case(case, world)
            took_s = time.monotonic() - begun - PAUSES_S.get(case["name"], 0.0)
            slowest_s = max(slowest_s, took_s)
    return outcomes, slowest_s


def _http_case(case: Case, world: World) -> str:
    if case["name"] in BEFORE:
        BEFORE[case["name"]](world)
    request, expect = case["request"], case["expect"]
    status, headers, body = world.ask(
        request["method"], request["path"], request.get("body"), request.get("headers")
    )
    if status != expect["status"]:
        return f"status {status} instead of {expect['status']}"
    # A length is left out where the body's placeholders make it vary.
    if "content-length" not in expect["headers"]:
        headers.pop("content-length", None)
    if headers != expect["headers"]:
        return f"headers {headers} instead of {expect['headers']}"
    if not matches(expect["body"], body):
        return f"body {body[:500]!r} instead of {expect['body'][:500]!r}"
    return ""


def main() -> int:
    """Replays both files and prints what failed; exit code 1 when something did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsqlookupd", help="another program to replay against")
    parser.add_argument("--samples", type=Path, default=RECORDINGS)
    args = parser.parse_args()
    failed = 0
    for file, play in ((TCP_FILE, replay_tcp), (HTTP_FILE, replay_http)):
        outcomes = play(args.samples / file, args.nsqlookupd)
        wrong = {name: problem for name, problem in outcomes.items() if problem}
        misses = wrong.keys() - DIFFERENCES.keys()
        print(
            f"{file}: {len(outcomes) - len(wrong)} held, {len(wrong) - len(misses)} differ on "
            f"purpose, {len(misses)} failed"
        )
        for name in misses:
            print(f"- {name}\n    {wrong[name]}")
        failed += len(misses)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
