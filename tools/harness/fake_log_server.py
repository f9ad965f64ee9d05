"""A log server in a thread: the endpoints of nsqd's log over batches built here.

It serves what a real nsqd cannot be made to do on demand: vanished offsets, gaps, dying mid-answer.
"""

from __future__ import annotations

import bisect
import itertools
import json
import struct
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from penstock.storage.batch import Batch

FIRST_ID = 0x0ABC_0000_0000_0000
_LOGS = itertools.count(0xA000)
"""Ids of logs, which two servers do not share."""
TIMESTAMP_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z


def nsq_frame(message_id: int, timestamp_ns: int, body: bytes) -> bytes:
    head = struct.pack(">IIqH", 30 + len(body), 2, timestamp_ns, 1)
    return head + b"%016x" % message_id + body


def nsq_batch(
    first_offset: int, bodies: Sequence[bytes], timestamp_ns: int = TIMESTAMP_NS
) -> bytes:
    """A batch as nsqd writes it."""
    first_id = FIRST_ID + first_offset
    frames = [nsq_frame(first_id + i, timestamp_ns, body) for i, body in enumerate(bodies)]
    sizes = {len(frame) for frame in frames}
    stride = sizes.pop() if len(sizes) == 1 else 0
    table = None
    if not stride:
        table = np.cumsum([0, *map(len, frames)], dtype=np.uint32)
    batch = Batch.build(
        first_offset, first_id, timestamp_ns, len(frames), stride, frames, table=table
    )
    return bytes(batch.raw)


class FakeQueue:
    """Batches of one queue and where they start."""

    def __init__(self, log: str = "") -> None:
        self.log = log
        self.batches: list[bytes] = []
        self.firsts: list[int] = []
        self.start = 0
        self.end = 0

    def append(self, bodies: Sequence[bytes], timestamp_ns: int = TIMESTAMP_NS) -> None:
        self.batches.append(nsq_batch(self.end, bodies, timestamp_ns))
        self.firsts.append(self.end)
        self.end += len(bodies)

    def drop(self, index: int) -> None:
        """Lose one batch, as a quarantine does."""
        del self.batches[index], self.firsts[index]

    def offset_at(self, timestamp_ns: int) -> int:
        """The first offset published at this time or later."""
        published = (struct.unpack_from("<q", batch, 32)[0] for batch in self.batches)
        firsts = zip(self.firsts, published, strict=True)
        return next((first for first, at_ns in firsts if at_ns >= timestamp_ns), self.end)

    def fetch(self, offset: int, max_bytes: int) -> bytes:
        if offset == self.end or not self.batches:
            return b""
        index = max(bisect.bisect_right(self.firsts, offset) - 1, 0)
        following = self.firsts[index + 1] if index + 1 < len(self.firsts) else self.end
        count = struct.unpack_from("<I", self.batches[index], 48)[0]
        if offset >= self.firsts[index] + count and following > offset:
            index += 1
        if index >= len(self.batches):
            return b""
        taken = [self.batches[index]]
        size = len(taken[0])
        for batch in self.batches[index + 1 :]:
            size += len(batch)
            if size > max_bytes:
                break
            taken.append(batch)
        return b"".join(taken)


class FakeLogServer:
    """Use as a context manager; ``address`` is host:port.

    With ``kind`` "go" it has topics and no log, as Go's nsqd; with "old" it takes one topic a
    request, tells no ids of logs and knows no owners, as Penstock's did.
    """

    def __init__(self, node: str | None = None, kind: str = "") -> None:
        self.kind = kind
        self.topics: dict[str, dict[int, FakeQueue]] = {}
        self.groups: dict[str, dict[str, dict[str, int]]] = {}
        self.owners: dict[tuple[str, str], str] = {}
        self.told: list[dict[str, Any]] = []
        self.producers: list[str] = []
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.fail_fetches = 0
        self.fetches = 0
        self.revision = 1
        self._revisions: dict[str, int] = {}
        self._ends: dict[str, Any] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.node = node or self.address
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> FakeLogServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def queue(self, topic: str, queue: int = 0) -> FakeQueue:
        """A queue of a topic, made if it is not there."""
        queues = self.topics.setdefault(topic, {})
        if queue not in queues:
            queues[queue] = FakeQueue(f"{next(_LOGS):016x}")
        return queues[queue]

    def delete(self, topic: str) -> None:
        """Delete a topic with its groups; made again it has another log."""
        del self.topics[topic]
        for group in self.groups.pop(topic, {}):
            self.owners.pop((topic, group), None)

    def answer(self, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        if path == "/lookup":
            return self._lookup(query["topic"])
        if path == "/nodes":
            return 200, {"producers": [self._producer(each) for each in self.producers]}
        if path == "/topics":
            return 200, {"topics": list(self.topics)}
        if path == "/stats":
            return 200, {"topics": [{"topic_name": name} for name in self.topics]}
        if self.kind == "go":
            return 404, {"message": "NOT_FOUND"}
        if path == "/log/changes":
            return self._changes(int(query["since"]))
        if path == "/pipelines":
            self.told.append(json.loads(body))
            return 200, {}
        if "topic" not in query:
            return self._many(path, query, body)
        return self._one(path, query["topic"], query, body)

    def _changes(self, since: int) -> tuple[int, Any]:
        if self.kind == "old":
            return 404, {"message": "NOT_FOUND"}
        ends = {
            name: [(each.log, each.start, each.end) for each in queues.values()]
            for name, queues in self.topics.items()
        }
        if ends.keys() < self._ends.keys():
            self.revision += 1
            self._ends, since = {}, 0
        changed = [name for name, end in ends.items() if self._ends.get(name) != end]
        if changed:
            self.revision += 1
        self._revisions |= dict.fromkeys(changed, self.revision)
        self._ends = ends
        named = [name for name, at in self._revisions.items() if at > since and name in ends]
        return 200, {"revision": self.revision} | ({"topics": named} if since else {})

    def _many(self, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        if self.kind == "old":
            return (405, {}) if path == "/log/offsets" else (400, {"message": "MISSING_ARG_TOPIC"})
        named = json.loads(body)["topics"]
        told: dict[str, Any] = {}
        for topic in named:
            part = {"offsets": named[topic]} if isinstance(named, dict) else {}
            told[topic] = self._one(path, topic, query, json.dumps(part).encode())[1]
        if path == "/log/offsets":
            return 200, {"node": self.node, "topics": [{"topic": t} | told[t] for t in told]}
        return 200, {"topics": told}

    def _one(self, path: str, topic: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        if topic not in self.topics:
            return 404, {"message": "TOPIC_NOT_FOUND"}
        if path == "/log/offsets":
            return 200, self._offsets(topic)
        if path == "/log/commit":
            return self._commit(topic, query, json.loads(body)["offsets"])
        if path == "/log/group/delete":
            gone = self.groups.get(topic, {}).pop(query["group"], None)
            return (404, {"message": "GROUP_NOT_FOUND"}) if gone is None else (200, {})
        if path == "/log/offset_at":
            queue = self.topics[topic][int(query["queue"])]
            return 200, {"offset": queue.offset_at(int(query["timestamp_ns"]))}
        return self._fetch(topic, query)

    def _commit(
        self, topic: str, query: dict[str, str], offsets: dict[str, int]
    ) -> tuple[int, Any]:
        owner, group = query.get("owner", ""), query["group"]
        first = self.owners.get((topic, group), "")
        if owner and first and owner != first and self.kind != "old":
            return 409, {"message": "GROUP_IN_USE", "owner": first, "seconds": 12.3}
        held = self.groups.setdefault(topic, {}).setdefault(group, {})
        held.update(offsets)
        if not held:
            held.update({str(number): each.start for number, each in self.topics[topic].items()})
        if owner and offsets:
            self.owners[topic, group] = owner
        return 200, {}

    def _lookup(self, topic: str) -> tuple[int, Any]:
        if not self.producers:
            return 404, {"message": "TOPIC_NOT_FOUND"}
        producers = [self._producer(each) for each in self.producers]
        return 200, {"channels": [], "producers": producers}

    def _producer(self, producer: str) -> dict[str, Any]:
        host, _, port = producer.rpartition(":")
        return {"broadcast_address": host, "http_port": int(port), "tcp_port": 1,
                "topics": list(self.topics), "tombstones": [False] * len(self.topics)}  # fmt: skip

    def _offsets(self, topic: str) -> Any:
        return {
            "node": self.node,
            "topic": topic,
            "queues": [
                {"queue": number, "start": queue.start, "end": queue.end,
                 "bytes": sum(map(len, queue.batches))}
                | ({} if self.kind == "old" else {"log": queue.log})
                for number, queue in self.topics[topic].items()
            ],
            "groups": self.groups.get(topic, {}),
        }  # fmt: skip

    def _fetch(self, topic: str, query: dict[str, str]) -> tuple[int, Any]:
        self.fetches += 1
        if self.fail_fetches:
            self.fail_fetches -= 1
            return 503, {"message": "TRY_LATER"}
        queue = self.topics[topic][int(query["queue"])]
        offset = int(query["offset"])
        if not queue.start <= offset <= queue.end:
            bounds = {"start": queue.start, "end": queue.end}
            return 416, {"message": "OFFSET_OUT_OF_RANGE", **bounds}
        return 200, queue.fetch(offset, int(query["max_bytes"]))

    def _handler(fake) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.requests.append(parts.path)
                fake.headers.append(dict(self.headers))
                status, answer = fake.answer(parts.path, query, body)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if parts.path == "/log/fetch" and status in (200, 416):
                    queue = fake.topics[query["topic"]][int(query["queue"])]
                    if fake.kind != "old":
                        self.send_header("X-Penstock-Log", queue.log)
                    self.send_header("X-Penstock-Start", str(queue.start))
                    self.send_header("X-Penstock-End", str(queue.end))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _serve

            def log_message(self, *_: object) -> None:
                pass

        return Handler
