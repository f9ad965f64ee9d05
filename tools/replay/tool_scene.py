"""Where the recorded runs play: an nsqlookupd, two nsqds, HTTP servers, a scripted nsqd."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.parse
from contextlib import ExitStack
from typing import Any

from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tools.harness.ports import unused_address

from .admin_scenes import eventually
from .tool_peers import run_fake_nsqd, run_sinks
from .tool_process import OURS, PROGRAMS

WAIT_S = 30.0
POLL_S = 0.01
LAST = "registered-last"
LOG_LINES = 60


class Node:
    """A daemon as its HTTP interface shows it, over one connection that is kept."""

    def __init__(self, stack: ExitStack, daemon: Daemon) -> None:
        self.tcp, self.http, self.log = daemon.tcp, daemon.http, daemon.log
        self._connection = http.client.HTTPConnection(daemon.http, timeout=WAIT_S)
        stack.callback(self._connection.close)

    def post(self, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """POST it; the status and body of the answer."""
        return self._request("POST", path, body)

    def topics(self, topic: str = "") -> dict[str, Any]:
        """The statistics of one topic, or of all, by name."""
        status, body = self._request(
            "GET", f"/stats?format=json&include_mem=false&topic={urllib.parse.quote(topic)}"
        )
        assert status == 200, body
        return {each["topic_name"]: each for each in json.loads(body)["topics"] or []}

    def channels(self, topic: str) -> list[dict[str, Any]]:
        """The statistics of the channels of a topic; none of one that does not exist."""
        found = self.topics(topic).get(topic)
        return list(found["channels"]) if found else []

    def delete(self, topic: str) -> None:
        """Delete the topic, if there is one."""
        self.post(f"/topic/delete?topic={urllib.parse.quote(topic)}")

    def names(self) -> list[str]:
        """All topics that this nsqlookupd knows."""
        return list(json.loads(self._request("GET", "/topics")[1])["topics"])

    def producers(self, topic: str) -> int:
        """The number of nsqds that this nsqlookupd knows for the topic."""
        status, body = self._request("GET", f"/lookup?topic={topic}")
        return len(json.loads(body)["producers"]) if status == 200 else 0

    def waiting(self, topic: str, *, in_flight: bool) -> int:
        """How many messages wait in the topic and its channels; with those in flight if asked."""
        found = self.topics(topic).get(topic)
        if not found:
            return 0
        counts = [found["depth"], *(channel["depth"] for channel in found["channels"])]
        if in_flight:
            counts += [channel["in_flight_count"] for channel in found["channels"]]
        return sum(counts)

    def consume(self, topic: str, count: int, finish: int | None = None) -> list[str]:
        """Receive up to so many messages from the channel c and finish them, or the first few."""
        have = self.topics(topic).get(topic)
        total = min(count, have["message_count"] if have else 0)
        if not total:
            return []
        reader = FrameReader()
        bodies: list[Any] = []
        host, _, port = self.tcp.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            connection.sendall(encode.MAGIC_V2 + encode.subscribe(topic, "c") + encode.ready(total))
            while len(bodies) < total:
                reader.receive_data(connection.recv(65536))
                bodies += [raw for frame in reader.events() if isinstance(frame, MessageBlock)
                           for raw in frame]  # fmt: skip
            # RDY 0 first: nothing more is to come, and what is not finished stays in flight.
            done = [encode.finish(raw.id) for raw in bodies[:finish]]
            connection.sendall(encode.ready(0) + b"".join(done) + encode.NOP)
            deadline = time.monotonic() + WAIT_S
            while time.monotonic() < deadline:
                counts = [channel["in_flight_count"] for channel in self.channels(topic)]
                if sum(counts) == total - len(done):
                    break
                time.sleep(POLL_S)
        return [raw.body.decode() for raw in bodies]

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, body)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (http.client.HTTPException, OSError):
            self._connection.close()  # the next one finds a new connection
            raise


class Scene:
    """Daemons and peers for one case at a time, or for any number of those that leave no trace."""

    def __init__(self, stack: ExitStack) -> None:
        lookupd = stack.enter_context(run_nsqlookupd())
        told = f"--lookupd-tcp-address={lookupd.tcp}"
        self.lookupd = Node(stack, lookupd)
        self.nsqds = [Node(stack, stack.enter_context(run_nsqd(told))) for _ in range(2)]
        self.sinks, addresses, self.requests = stack.enter_context(
            run_sinks("sink", "sink2", "redir", "fake_lookupd")
        )
        self.fake, fake_address = stack.enter_context(run_fake_nsqd())
        host = socket.gethostname()
        first, second = self.nsqds
        self.values = {
            "tcp": first.tcp,
            "http": first.http,
            "tcp2": second.tcp,
            "http2": second.http,
            "lookupd_tcp": self.lookupd.tcp,
            "lookupd_http": self.lookupd.http,
            "fake": fake_address,
            "host": host,
            "short_host": host.partition(".")[0],
            "path": PROGRAMS or OURS,
            "dead": unused_address(),
            "free": "127.0.0.1:0",
            **addresses,
        }

    def empty(self) -> None:
        """Forget all topics and requests."""
        for nsqd in self.nsqds:
            for topic in nsqd.topics():
                nsqd.delete(topic)
        self._registrations_arrived()
        for topic in self.lookupd.names():
            self.lookupd.delete(topic)
        for sink in self.sinks.values():
            sink.reset()
        self.fake.reset("OK")
        self.requests.clear()

    def _registrations_arrived(self) -> None:
        """Wait until nsqlookupd has got all registrations so far: one that is still on its way
        would bring a deleted topic back.
        """
        for each in self.nsqds:
            status, body = each.post(f"/topic/create?topic={LAST}")
            assert status == 200, f"{each.http} answers {status} {body!r}"
        try:
            eventually("registered", lambda: self.lookupd.producers(LAST) == len(self.nsqds))
        except AssertionError as error:
            raise AssertionError(f"{error}; the daemons logged\n{self._seen()}") from None
        for each in self.nsqds:
            each.delete(LAST)
        eventually("unregistered", lambda: self.lookupd.producers(LAST) == 0)

    def _seen(self) -> str:
        """The last lines that each daemon has logged."""
        logs = [each.log().splitlines()[-LOG_LINES:] for each in (self.lookupd, *self.nsqds)]
        return "\n".join(line for lines in logs for line in lines)
