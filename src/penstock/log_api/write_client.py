"""Writing to a node over HTTP: messages at once, or staged and then committed in one write.

Publishing is what every nsqd has. Staging is a Penstock node's: a writer stages the chunks of each
part of a batch, which nobody sees, and commits those that count. A node remembers the last batch
of each writer in a topic, so a batch that is written a second time is not written twice. A batch
for several topics or nodes is decided at all of its nodes before one of them commits it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.log_api.errors import BatchCommitted, BatchDecided, LogError, NodeError
from penstock.log_api.log_client import LogClient


class Part(NamedTuple):
    """A part of a batch as one attempt has staged it, in chunks numbered from 0."""

    part: int
    attempt: int
    chunks: int


class Committed(NamedTuple):
    """A topic's messages of a commit; none if the batch was committed before (``again``)."""

    messages: int
    again: bool


class Decision(NamedTuple):
    """The attempts at a batch that are committed, as its nodes have them written down.

    ``nodes`` are the addresses that the writer gave, with the number of chunks to commit at each;
    ``attempts`` are parts and attempts. The node that tells it has ``begun`` to commit its share,
    or is ``done`` and may have forgotten the attempts.
    """

    batch: int
    nodes: tuple[tuple[str, int], ...]
    attempts: tuple[tuple[int, int], ...]
    begun: bool = False
    done: bool = False


class WriteClient(LogClient):
    """One node's endpoints for writing, beside those of its log; for one thread at a time.

    Methods raise NodeUnreachable, and LogError for a refusal: NoLog where a server has no such
    endpoint.
    """

    def delays_many(self) -> bool:
        """True for a node that takes a delay with many messages, which Go's nsqd overlooks."""
        return "penstock_version" in self._info()

    def identity(self) -> tuple[object, ...]:
        """A value that two nodes do not share, whatever addresses lead to them."""
        info = self._info()
        return tuple(info.get(name) for name in ("hostname", "tcp_port", "http_port", "start_time"))

    def publish_many(self, topic: str, body: bytes, defer_ms: int = 0) -> None:
        """Publish all messages of the body of an MPUB (``encode.multi_body``), or none of them."""
        self._post("/mpub", topic, {"binary": "true", **_defer(defer_ms)}, body)

    def publish(self, topic: str, body: bytes, defer_ms: int = 0) -> None:
        """Publish a message, for ``defer_ms`` milliseconds later."""
        self._post("/pub", topic, _defer(defer_ms), body)

    def stage(
        self,
        topic: str,
        writer: str,
        batch: int,
        part: int,
        attempt: int,
        chunk: int,
        body: bytes,
        *,
        scope: str = "",
    ) -> None:
        """Keep a chunk for a later commit: a count, then each message's size, delay and bytes.

        The same chunk again takes its place. ``scope`` is the topic if it is decided on by itself.
        Raises BatchCommitted and BatchDecided.
        """
        query = {"writer": writer, "batch": batch, "part": part, "attempt": attempt, "chunk": chunk}
        self._post("/stage", topic, query | _scope(scope), body)

    def commit_staged(
        self, writer: str, batch: int, parts: Mapping[str, Sequence[Part]]
    ) -> dict[str, Committed | NodeError]:
        """Append the parts of each topic in one write; the error of each topic where it failed."""
        body = {"topics": {topic: [part._asdict() for part in parts[topic]] for topic in parts}}
        answer = self._json(
            "POST",
            "/stage/commit",
            "",
            {"writer": writer, "batch": batch},
            json.dumps(body).encode(),
        )
        found: dict[str, Committed | NodeError] = {}
        with self._understanding():
            for topic in parts:
                found[topic] = self._committed(answer["topics"][topic], topic)
        return found

    def decision(self, writer: str, scope: str = "") -> Decision | None:
        """The writer's last decision that this node has written down."""
        answer = self._json("GET", "/stage/decision", "", {"writer": writer} | _scope(scope))
        with self._understanding():
            told = answer["decision"]
            if told is None:
                return None
            return Decision(
                int(told["batch"]),
                tuple((str(node["address"]), int(node["chunks"])) for node in told["nodes"]),
                tuple((int(part), int(attempt)) for part, attempt in told["attempts"]),
                bool(told["begun"]),
                bool(told["done"]),
            )

    def decide(self, writer: str, decision: Decision, chunks: int, scope: str = "") -> None:
        """Write down durably which attempts are committed; they have ``chunks`` at this node.

        Raises BatchDecided for another decision of the batch, BatchCommitted for that of a later
        one, LogError 404 PART_NOT_FOUND if the node does not hold these chunks.
        """
        nodes = [{"address": address, "chunks": count} for address, count in decision.nodes]
        body = json.dumps({"nodes": nodes, "attempts": decision.attempts}).encode()
        query = {"writer": writer, "batch": decision.batch, "chunks": chunks}
        self._post("/stage/decide", "", query | _scope(scope), body)

    def commit_decided(
        self, writer: str, batch: int, scope: str = ""
    ) -> dict[str, Committed | NodeError]:
        """Append what was decided, in one write a topic; the error of each topic where it failed.

        Topics that had it before are left out.
        """
        found: dict[str, Committed | NodeError] = {}
        query: dict[str, Any] = {"writer": writer, "batch": batch, "decided": "true"}
        more = True
        # Not beyond a failed topic: the node would begin with it at each request.
        while more and not any(isinstance(each, NodeError) for each in found.values()):
            answer = self._json("POST", "/stage/commit", "", query | _scope(scope), b"")
            with self._understanding():
                found |= {
                    topic: self._committed(told, topic) for topic, told in answer["topics"].items()
                }
                more = bool(answer["more"])
        return found

    def _committed(self, told: dict[str, Any], topic: str) -> Committed | NodeError:
        error = self._error_of(told, topic)
        return error or Committed(int(told["count"]), bool(told["again"]))

    def abort_staged(
        self, writer: str, batch: int, scope: str = "", *, decided: bool = False
    ) -> None:
        """Drop what is staged for a batch; if it is ``decided``, that as well, else BatchDecided
        is raised.
        """
        query = {"writer": writer, "batch": batch} | ({"decided": "true"} if decided else {})
        self._post("/stage/abort", "", query | _scope(scope), b"")

    def _info(self) -> dict[str, Any]:
        return self._json("GET", "/info", "", {})

    def _post(self, path: str, topic: str, query: dict[str, Any], body: bytes) -> None:
        self._check(self._request("POST", path, topic, query, body), topic)

    def _error_of(self, answer: dict[str, Any], topic: str, status: int = 500) -> NodeError | None:
        reason = str(answer.get("message", ""))
        if reason == "BATCH_COMMITTED":
            return BatchCommitted(self.node, status, reason)
        if reason == "BATCH_DECIDED":
            return BatchDecided(self.node, status, reason)
        if reason == "PART_NOT_FOUND" and "missing" in answer:
            return LogError(self.node, status, f"{reason} ({answer['missing']} chunks)")
        if reason == "PART_NOT_FOUND":
            lost = ", ".join(f"{name} {answer.get(name)}" for name in ("part", "attempt", "chunk"))
            return LogError(self.node, status, f"{reason} ({lost})")
        return super()._error_of(answer, topic, status)


def _scope(scope: str) -> dict[str, str]:
    return {"scope": scope} if scope else {}


def _defer(defer_ms: int) -> dict[str, int]:
    return {"defer": defer_ms} if defer_ms else {}
