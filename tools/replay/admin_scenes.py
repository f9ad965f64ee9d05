"""The clusters in which nsqadmin's exchanges were recorded, and what happened between them.

A case's `setup` says it in words; the functions here do it, found by the name of the first case
that needs it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tools.harness.patience import PATIENT
from tools.harness.ports import unused_address

from .replay_lookupd import Peer
from .tool_peers import Request, Sink, run_sink

WAIT_S = 120.0
POLL_S = 0.01


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Waits until something has come about. AssertionError after a while."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(POLL_S)


def ask(method: str, url: str, body: bytes = b"") -> Any:
    """The JSON of an answer, None of an empty one."""
    data = body if method == "POST" else None
    request = urllib.request.Request(url, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        error.close()  # Python 3.14 warns of one that is only dropped
        raise
    return json.loads(text) if text[:1] in (b"{", b"[") else None


class Cluster:
    """One nsqlookupd, two nsqds registered there, servers that note what they are asked."""

    def __init__(self, stack: ExitStack, *nsqd_flags: str) -> None:
        self.lookupd = stack.enter_context(run_nsqlookupd())
        told = f"--lookupd-tcp-address={self.lookupd.tcp}"
        self.nsqds = [stack.enter_context(run_nsqd(told, *PATIENT, *nsqd_flags)) for _ in range(2)]
        self.noted: list[Request] = []
        self.graphite, graphite = stack.enter_context(run_sink("graphite", self.noted))
        _, notify = stack.enter_context(run_sink("notify", self.noted))
        self.peers: list[Any] = []
        stack.callback(self._close)
        dead, dead2, dead_tcp, nosuch = (unused_address() for _ in range(4))
        self.values = {
            "host": socket.gethostname(),
            "lookupd_http": self.lookupd.http,
            "lookupd_tcp": self.lookupd.tcp,
            **_addresses("", self.nsqds[0]),
            **_addresses("2", self.nsqds[1]),
            "graphite": graphite,
            "notify": notify,
            "dead": dead,
            "dead2": dead2,
            "dead_port": dead.rpartition(":")[2],
            "dead_tcp_port": dead_tcp.rpartition(":")[2],
            "nosuch": nosuch,
        }
        eventually("both nsqds at nsqlookupd", lambda: len(self.registered("/nodes")) == 2)

    def registered(self, path: str) -> list[Any]:
        """The producers that nsqlookupd tells of."""
        try:
            producers: list[Any] = ask("GET", f"http://{self.lookupd.http}{path}")["producers"]
        except urllib.error.HTTPError:
            return []
        return producers

    def create(self, node: int, topic: str, channel: str = "") -> None:
        """A topic on one of the nsqds; returns when nsqlookupd knows."""
        daemon = self.nsqds[node]
        query = f"topic={urllib.parse.quote(topic, safe='')}"
        ask("POST", f"http://{daemon.http}/topic/create?{query}")
        if channel:
            channel = urllib.parse.quote(channel, safe="")
            ask("POST", f"http://{daemon.http}/channel/create?{query}&channel={channel}")
        eventually(f"{topic} at nsqlookupd", lambda: self._has(daemon, f"/lookup?{query}"))

    def publish(self, node: int, topic: str, count: int) -> None:
        """That many messages of one byte."""
        for _ in range(count):
            ask("POST", f"http://{self.nsqds[node].http}/pub?topic={topic}", b"x")

    def consume(self) -> None:
        """The consumer of the samples: RDY 2, and one message finished."""
        connection = socket.create_connection(("127.0.0.1", self.nsqds[0].tcp_port), WAIT_S)
        self.peers.append(connection)
        identity = json.dumps({"client_id": "cid", "hostname": "chost", "user_agent": "ua/1"})
        size = struct.pack(">i", len(identity))
        connection.sendall(b"  V2IDENTIFY\n" + size + identity.encode() + b"SUB t1 c1\nRDY 2\n")
        messages = _messages(connection.makefile("rb"))
        first, _ = next(messages), next(messages)
        connection.sendall(b"FIN " + first + b"\n")
        next(messages)

    def register(self, **changes: object) -> Peer:
        """A producer of which there is nothing but its registration."""
        peer = Peer(self.lookupd)
        self.peers.append(peer)
        return peer.identify(
            hostname="h",
            tcp_port=int(self.values["dead_tcp_port"]),
            http_port=int(self.values["dead_port"]),
            **{"topology_zone": "", "topology_region": "", **changes},
        )

    def leave(self) -> None:
        """The registered producer goes; returns when nsqlookupd has noticed."""
        before = len(self.registered("/nodes"))
        self.peers.pop().close()
        eventually("the producer is gone", lambda: len(self.registered("/nodes")) < before)

    def notifications(self) -> list[Request]:
        """What was notified and not yet looked at."""
        return [each for each in self.noted if each["to"] == "notify"]

    def _has(self, daemon: Daemon, path: str) -> bool:
        return any(each["http_port"] == daemon.http_port for each in self.registered(path))

    def _close(self) -> None:
        for peer in self.peers:
            peer.close()


def _messages(stream: BinaryIO) -> Iterator[bytes]:
    """The ids of the messages that come."""
    while True:
        (size,) = struct.unpack(">i", stream.read(4))
        frame = stream.read(size)
        if frame[:4] == b"\0\0\0\2":
            yield frame[14:30]


def _addresses(suffix: str, daemon: Daemon) -> dict[str, str]:
    return {
        f"tcp{suffix}": daemon.tcp,
        f"http{suffix}": daemon.http,
        f"tcp{suffix}_port": str(daemon.tcp_port),
        f"http{suffix}_port": str(daemon.http_port),
    }


# --- what happens before a case ------------------------------------------------------------------


def _two_nodes(cluster: Cluster) -> None:
    for node, count in ((0, 5), (1, 3)):
        cluster.create(node, "t1", "c1")
        cluster.publish(node, "t1", count)


def _set_lookupds(cluster: Cluster) -> None:
    """Back to what the flags said."""
    url = f"http://{cluster.values['admin']}/config/nsqlookupd_http_addresses"
    body = json.dumps([cluster.lookupd.http]).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, method="PUT"), timeout=WAIT_S):
        pass


def _nsqd_mode(cluster: Cluster) -> None:
    cluster.create(0, "tn", "cn")
    cluster.publish(0, "tn", 1)


def _forget_created(cluster: Cluster) -> None:
    """What ours creates without nsqlookupds, and Go's does not."""
    for http_address in (*(nsqd.http for nsqd in cluster.nsqds), cluster.lookupd.http):
        for what in ("topic/delete?topic=tnew", "channel/delete?topic=tn&channel=cn2"):
            with contextlib.suppress(urllib.error.HTTPError):
                ask("POST", f"http://{http_address}/{what}")
    with contextlib.suppress(urllib.error.HTTPError):
        ask("POST", f"http://{cluster.nsqds[1].http}/topic/delete?topic=tn")


def _latencies(cluster: Cluster) -> None:
    """Four messages finished on the first nsqd, two on the second."""
    for node, count in ((0, 4), (1, 2)):
        cluster.create(node, "e2", "c")
        cluster.publish(node, "e2", count)
        with socket.create_connection(("127.0.0.1", cluster.nsqds[node].tcp_port), WAIT_S) as peer:
            peer.sendall(b"  V2SUB e2 c\nRDY 10\n")
            with peer.makefile("rb") as stream:
                for message in itertools.islice(_messages(stream), count):
                    peer.sendall(b"FIN " + message + b"\n")
        stats = f"http://{cluster.nsqds[node].http}/stats?format=json&topic=e2&channel=c"

        def is_done(url: str = stats) -> bool:
            (channel,) = ask("GET", url)["topics"][0]["channels"]
            return bool(channel["in_flight_count"] == channel["client_count"] == 0)

        eventually("all finished", is_done)


def _graphite(text: str, status: int = 200) -> Callable[[Cluster], None]:
    def answer(cluster: Cluster) -> None:
        sink: Sink = cluster.graphite
        sink.reset(status, text.encode(), **{"Content-Type": "application/json"})

    return answer


def _one_unreachable(cluster: Cluster) -> None:
    cluster.leave()
    cluster.register(version="1.3.0").command("REGISTER tm cm")
    cluster.create(0, "tm", "cm")


def _one_unreachable_again(cluster: Cluster) -> None:
    cluster.peers[-1].command("REGISTER tm cm")
    cluster.create(0, "tm", "cm")


def _of_version(version: str, **topology: str) -> Callable[[Cluster], None]:
    def register(cluster: Cluster) -> None:
        for address in (cluster.nsqds[0].http, cluster.lookupd.http):
            with contextlib.suppress(urllib.error.HTTPError):
                ask("POST", f"http://{address}/topic/delete?topic=tm")
        cluster.leave()
        cluster.register(version=version, **topology).command("REGISTER tv")

    return register


_POINTS = '[{"target":"x","datapoints":[[1234.5,1700000000]]}]'
BEFORE: dict[str, Callable[[Cluster], None]] = {
    "topics": _two_nodes,
    "channel with client": Cluster.consume,
    "ephemeral topic in path": lambda cluster: cluster.create(0, "te#ephemeral", "ce#ephemeral"),
    "config 405": _set_lookupds,
    "one of two nsqlookupds dead: topics": lambda cluster: cluster.create(0, "tp", "cp"),
    "nsqd mode: topics": _nsqd_mode,
    "nsqd mode: pause": _forget_created,
    "nsqd mode, one of two dead: topics": lambda cluster: cluster.create(0, "tn", "cn"),
    "graphite ok": _graphite(_POINTS),
    "graphite neg": _graphite('[{"target":"x","datapoints":[[-5,1]]}]'),
    "graphite null": _graphite('[{"target":"x","datapoints":[[null,1]]}]'),
    "graphite empty": _graphite("[]"),
    "graphite nodp": _graphite('[{"target":"x","datapoints":[]}]'),
    "graphite bad": _graphite("oops"),
    "graphite 500": _graphite("err", 500),
    "render proxied": _graphite(_POINTS),
    "e2e topic": _latencies,
    "older producer: nodes, out_of_date": lambda cluster: cluster.register(
        version="1.2.0-alpha"
    ).command("REGISTER tz cz"),
    "one nsqd unreachable: channel": _one_unreachable,
    "one nsqd unreachable: topic": _one_unreachable_again,
    "pre-release version and topology: nodes": _of_version(
        "1.3.0-x", topology_zone="z", topology_region="r"
    ),
    "unparsable version: nodes": _of_version("weird"),
}
