"""Writing to a node over HTTP: messages at once, or staged and then committed in one write.

Publishing is what every nsqd has. Staging is a Penstock node's: a writer stages the chunks of each
part of a batch, which nobody sees, and commits those that count. A node remembers the last batch
of each writer in a topic, so a batch that is written a second time is not written twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.nsq.client.errors import ClientError
from penstock.nsq.client.log import LogClient, LogError


class BatchCommitted(LogError):
    """The writer has committed this batch in the topic, or a newer one."""


class Part(NamedTuple):
    """A part of a batch as one attempt has staged it, in chunks numbered from 0."""

    part: int
    attempt: int
    chunks: int


class Committed(NamedTuple):
    """A topic's messages of a commit; none if the batch was committed before (``again``)."""

    messages: int
    again: bool


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
        self, topic: str, writer: str, batch: int, part: int, attempt: int, chunk: int, body: bytes
    ) -> None:
        """Keep a chunk for a later commit: a count, then each message's size, delay and bytes.

        The same chunk again takes its place. Raises BatchCommitted.
        """
        query = {"writer": writer, "batch": batch, "part": part, "attempt": attempt, "chunk": chunk}
        self._post("/stage", topic, query, body)

    def commit_staged(
        self, writer: str, batch: int, parts: Mapping[str, Sequence[Part]]
    ) -> dict[str, Committed | ClientError]:
        """Append the parts of each topic in one write; the error of each topic where it failed."""
        body = {"topics": {topic: [part._asdict() for part in parts[topic]] for topic in parts}}
        answer = self._json(
            "POST",
            "/stage/commit",
            "",
            {"writer": writer, "batch": batch},
            json.dumps(body).encode(),
        )
        found: dict[str, Committed | ClientError] = {}
        with self._understanding():
            for topic in parts:
                told = answer["topics"][topic]
                found[topic] = self._error_of(told, topic) or Committed(
                    int(told["count"]), bool(told["again"])
                )
        return found

    def abort_staged(self, writer: str, batch: int) -> None:
        """Drop what is staged for a batch."""
        self._post("/stage/abort", "", {"writer": writer, "batch": batch}, b"")

    def _info(self) -> dict[str, Any]:
        return self._json("GET", "/info", "", {})

    def _post(self, path: str, topic: str, query: dict[str, Any], body: bytes) -> None:
        self._check(self._request("POST", path, topic, query, body), topic)

    def _error_of(
        self, answer: dict[str, Any], topic: str, status: int = 500
    ) -> ClientError | None:
        reason = str(answer.get("message", ""))
        if reason == "BATCH_COMMITTED":
            return BatchCommitted(self.node, status, reason)
        if reason == "PART_NOT_FOUND":
            lost = ", ".join(f"{name} {answer.get(name)}" for name in ("part", "attempt", "chunk"))
            return LogError(self.node, status, f"{reason} ({lost})")
        return super()._error_of(answer, topic, status)


def _defer(defer_ms: int) -> dict[str, int]:
    return {"defer": defer_ms} if defer_ms else {}
