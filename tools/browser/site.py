"""A cluster for the browser to look at: an nsqlookupd, three nsqds with traffic, an nsqadmin."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

from penstock.testing.daemons import Daemon, Nsqadmin, run_nsqadmin, run_nsqd, run_nsqlookupd

SECONDS_MAX = 60.0
PATIENT = ("--http-client-connect-timeout=20s", "--http-client-request-timeout=20s")
"""Flags of an nsqadmin. It waits for longer than a busy machine keeps a node from answering, which
would be an error on a page, and for less than pages are waited for: a node may hang on purpose.
"""
_QUICK = ("--history-interval=1s", *PATIENT)
_LOOK_S = 0.02
_LATENCIES = "--e2e-processing-latency-percentile=0.99,0.95"

Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str = "it", seconds: float = SECONDS_MAX) -> Found:
    """What `look` returns, as soon as it is true. Raises AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{what} did not come true within {seconds:g} s"
        time.sleep(_LOOK_S)
    return found


def ask(
    address: str, method: str, target: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Status and body of an answer: JSON where it is some, else text. A `bytes` body goes as it is,
    others as JSON; in header names `_` stands for `-`.
    """
    connection = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, data, names)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text[:1] in ("{", "[") else text
    finally:
        connection.close()


class Site:
    """The cluster. `nsqds` have numbers 0 to 2; what is on them, tools.browser.traffic says."""

    def __init__(self, lookupd: Daemon, nsqds: list[Daemon], admin: Nsqadmin) -> None:
        self.lookupd, self.nsqds, self.admin = lookupd, nsqds, admin

    @property
    def url(self) -> str:
        """nsqadmin's, without a final slash."""
        return f"http://{self.admin.http}"

    @property
    def nodes(self) -> list[str]:
        """How nsqadmin names the nodes: host and port of their HTTP API."""
        return [nsqd.http for nsqd in self.nsqds]

    # --- what a test makes for itself ------------------------------------------------------------

    def make(
        self,
        topic: str,
        *channels: str,
        bodies: tuple[bytes, ...] = (),
        node: int = 0,
        **config: Any,
    ) -> None:
        """A topic of the test's own on one node, with messages; `config` is for its channels, as
        /channel/config takes it. Returns when the nsqlookupd knows it.
        """  # fmt: skip
        nsqd = self.nsqds[node].http
        _agreed(nsqd, "POST", f"/topic/create?topic={quote(topic)}")
        for channel in channels:
            target = f"topic={quote(topic)}&channel={quote(channel)}"
            _agreed(nsqd, "POST", f"/channel/create?{target}")
            if config:
                _agreed(nsqd, "POST", f"/channel/config?{target}", config)
        for body in bodies:
            self.publish(topic, body, node)
        until(lambda: {topic, *channels} <= self._known(topic), f"nsqlookupd knowing {topic}")

    def publish(self, topic: str, body: bytes, node: int = 0, defer_ms: int = 0) -> None:
        """One message."""
        target = f"/pub?topic={quote(topic)}" + (f"&defer={defer_ms}" if defer_ms else "")
        _agreed(self.nsqds[node].http, "POST", target, body)

    def stats(self, topic: str, channel: str = "", node: int = 0) -> dict[str, Any] | None:
        """What the node tells of a topic or a channel; None when it has none."""
        nsqd = self.nsqds[node].http
        found = _agreed(nsqd, "GET", f"/stats?format=json&topic={quote(topic)}")["topics"] or []
        if found and channel:
            found = [each for each in found[0]["channels"] if each["channel_name"] == channel]
        return found[0] if found else None

    def api(self, target: str) -> Any:
        """nsqadmin's answer to a GET that must be 200."""
        return _agreed(self.admin.http, "GET", target)

    @contextmanager
    def another_admin(self, *flags: str) -> Iterator[Nsqadmin]:
        """A second nsqadmin over the same cluster: with a base path, with --admin-user."""
        with run_nsqadmin(f"--lookupd-http-address={self.lookupd.http}", *_QUICK, *flags) as admin:
            yield admin

    @contextmanager
    def another_nsqd(self, *flags: str) -> Iterator[Daemon]:
        """A fourth node, to be killed; nsqadmin lists it when the block begins."""
        with _nsqd(self.lookupd, *flags) as nsqd:
            until(lambda: nsqd.http in self._listed(), "nsqadmin listing the node")
            yield nsqd
        until(lambda: nsqd.http not in self._listed(), "nsqadmin forgetting the node")

    def _known(self, topic: str) -> set[str]:
        """The topic and its channels, as far as the nsqlookupd knows them."""
        known = _agreed(self.lookupd.http, "GET", "/topics")["topics"]
        channels = _agreed(self.lookupd.http, "GET", f"/channels?topic={quote(topic)}")["channels"]
        return {topic, *channels} if topic in known else set()

    def _listed(self) -> set[str]:
        nodes = self.api("/api/nodes")["nodes"] or []
        return {f"{each['broadcast_address']}:{each['http_port']}" for each in nodes}


def _agreed(address: str, method: str, target: str, body: Any = None) -> Any:
    status, answer = ask(address, method, target, body)
    assert status == 200, f"{method} {address}{target}: {status} {answer}"
    return answer


@contextmanager
def _nsqd(lookupd: Daemon, *flags: str) -> Iterator[Daemon]:
    with run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}", _LATENCIES, *flags) as nsqd:
        yield nsqd


@contextmanager
def running_site(*admin_flags: str) -> Iterator[Site]:
    """The cluster with its traffic, until the end of the block."""
    with ExitStack() as stack:
        lookupd = stack.enter_context(run_nsqlookupd())
        own = ((), (), ("--rocketmq-address=127.0.0.1:0",))
        nsqds = [stack.enter_context(_nsqd(lookupd, *flags)) for flags in own]
        flags = (f"--lookupd-http-address={lookupd.http}", *_QUICK, *admin_flags)
        stack.enter_context(_traffic(lookupd, nsqds))
        admin = stack.enter_context(run_nsqadmin(*flags))
        yield Site(lookupd, nsqds, admin)


@contextmanager
def _traffic(lookupd: Daemon, nsqds: list[Daemon]) -> Iterator[None]:
    """The traffic, from when everything is there."""
    listening = re.compile(r"RocketMQ: listening on \S+:(\d+)")
    found = until(lambda: listening.search(nsqds[-1].log()), "RocketMQ listening")
    command = [sys.executable, "-m", "tools.browser.traffic", f"--lookupd={lookupd.http}",
               *(f"--nsqd={each.tcp},{each.http}" for each in nsqds),
               f"--rocketmq={found and found[1]}"]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n", "the traffic did not start"
            yield
            assert process.poll() is None, "the traffic ended by itself"
        finally:
            process.stdin.close()
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
