"""A scripted nsqd over HTTP: what it was sent, and whatever answers a test puts in its way."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, Any]]
Query = dict[str, str]
OK: Answer = (200, {})


class FakeNode:
    """Use as a context manager. ``refuse`` may answer a request in place of the node.

    With ``kind`` "go" it stages nothing and takes no delay with many messages; as an "older" node
    of Penstock it keeps no decisions.
    """

    def __init__(self, kind: str = "") -> None:
        self.kind = kind
        self.published: list[tuple[str, int, bytes]] = []
        self.staged: dict[tuple[str, str, int], dict[tuple[int, int, int], list[tuple[int, bytes]]]]
        self.staged = {}
        self.committed: dict[tuple[str, str], int] = {}
        self.decisions: dict[tuple[str, str], dict[str, Any]] = {}
        self.requests: list[tuple[str, Query, int]] = []
        self.headers: list[dict[str, str]] = []
        self.aborted: list[Query] = []
        self.refuse: Callable[[str, Query, bytes], Answer | None] = lambda *_: None
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> FakeNode:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def bodies(self) -> list[bytes]:
        """The bodies that were published, in the order of their coming."""
        return [body for _, _, body in self.published]

    def answer(self, path: str, query: Query, body: bytes) -> Answer:
        with self._lock:
            self.requests.append((path, query, len(body)))
            return self.refuse(path, query, body) or self._route(path)(query, body)

    def _route(self, path: str) -> Callable[[Query, bytes], Answer]:
        if path.startswith("/stage") and self.kind == "go":
            return self._not_found
        if path.startswith("/stage/deci") and self.kind == "older":
            return self._not_found
        routes = {
            "/mpub": self._mpub, "/pub": self._pub, "/info": self._info, "/nodes": self._nodes,
            "/stage": self._stage, "/stage/commit": self._commit, "/stage/abort": self._abort,
            "/stage/decide": self._decide, "/stage/decision": self._decision,
        }  # fmt: skip
        return routes[path]

    def _not_found(self, query: Query, body: bytes) -> Answer:
        return 404, {"message": "NOT_FOUND"}

    def _info(self, query: Query, body: bytes) -> Answer:
        version = {} if self.kind == "go" else {"penstock_version": "1"}
        return 200, {"hostname": "h", "http_port": self._server.server_address[1], **version}

    def _nodes(self, query: Query, body: bytes) -> Answer:
        host, port = self.address.split(":")
        producer = {"broadcast_address": host, "tcp_port": 1, "http_port": int(port)}
        return 200, {"producers": [producer]}

    def _mpub(self, query: Query, body: bytes) -> Answer:
        delay = 0 if self.kind == "go" else int(query.get("defer", 0))
        self.published += [(query["topic"], delay, each) for each in unpacked(body)]
        return OK

    def _pub(self, query: Query, body: bytes) -> Answer:
        self.published.append((query["topic"], int(query.get("defer", 0)), body))
        return OK

    def _stage(self, query: Query, body: bytes) -> Answer:
        topic, writer, batch = query["topic"], query["writer"], int(query["batch"])
        if self.committed.get((topic, writer), -1) >= batch:
            return 409, {"message": "BATCH_COMMITTED", "batch": self.committed[topic, writer]}
        if self.decisions.get(key_of(query), {"batch": -1})["batch"] >= batch:
            return 409, {"message": "BATCH_DECIDED", "batch": batch}
        chunk = tuple(int(query[name]) for name in ("part", "attempt", "chunk"))
        chunks = self.staged.setdefault((topic, writer, batch), {})
        chunks[chunk] = staged_messages(body)  # type: ignore[index]
        return 200, {"count": len(chunks), "bytes": len(body)}

    def _commit(self, query: Query, body: bytes) -> Answer:
        writer, batch = query["writer"], int(query["batch"])
        if query.get("decided") == "true":
            return self._commit_decided(query, writer, batch)
        topics = json.loads(body)["topics"]
        told = {topic: self._commit_topic(topic, writer, batch, topics[topic]) for topic in topics}
        return 200, {"topics": told}

    def _commit_decided(self, query: Query, writer: str, batch: int) -> Answer:
        """One topic a request, as if that were the most."""
        decision = self.decisions[key_of(query)]
        assert decision["batch"] == batch
        won, told = {tuple(each) for each in decision["attempts"]}, {}
        topics = [topic for topic, w, b in self.staged if (w, b) == (writer, batch)
                  and query.get("scope", topic) == topic]  # fmt: skip
        for topic in topics[:1]:
            counts: dict[tuple[int, int], int] = {}
            for part, attempt, _ in self.staged[topic, writer, batch]:
                if (part, attempt) in won:
                    counts[part, attempt] = counts.get((part, attempt), 0) + 1
            parts = [{"part": p, "attempt": a, "chunks": n} for (p, a), n in counts.items()]
            told[topic] = self._commit_topic(topic, writer, batch, parts)
            decision["begun"] = True
        decision["done"] = len(topics) < 2
        return 200, {"topics": told, "more": len(topics) > 1}

    def _decide(self, query: Query, body: bytes) -> Answer:
        writer, batch, given = query["writer"], int(query["batch"]), json.loads(body)
        last = self.decisions.get(key_of(query))
        if last is not None and last["batch"] >= batch:
            same = last["batch"] == batch and last["nodes"] == given["nodes"]
            return OK if same else (409, {"message": "BATCH_DECIDED", "batch": last["batch"]})
        won = {tuple(each) for each in given["attempts"]}
        chunks = [key for (topic, w, b), of in self.staged.items() if (w, b) == (writer, batch)
                  and query.get("scope", topic) == topic
                  for key in of if key[:2] in won]  # fmt: skip
        if len(chunks) != int(query["chunks"]):
            return 404, {"message": "PART_NOT_FOUND", "missing": int(query["chunks"]) - len(chunks)}
        self.decisions[key_of(query)] = {"batch": batch, "begun": False, "done": False, **given}
        return OK

    def _decision(self, query: Query, body: bytes) -> Answer:
        return 200, {"decision": self.decisions.get(key_of(query))}

    def _commit_topic(self, topic: str, writer: str, batch: int, parts: Any) -> dict[str, Any]:
        if self.committed.get((topic, writer), -1) >= batch:
            return {"count": 0, "again": True}
        chunks = self.staged.get((topic, writer, batch), {})
        messages = []
        for part in sorted(parts, key=lambda part: part["part"]):
            for number in range(part["chunks"]):
                found = chunks.get((part["part"], part["attempt"], number))
                if found is None:
                    return {"message": "PART_NOT_FOUND", "part": part["part"],
                            "attempt": part["attempt"], "chunk": number}  # fmt: skip
                messages += found
        self.published += [(topic, delay, body) for delay, body in messages]
        self.committed[topic, writer] = batch
        self.staged.pop((topic, writer, batch), None)
        return {"count": len(messages), "again": False}

    def _abort(self, query: Query, body: bytes) -> Answer:
        self.aborted.append(query)
        if query.get("decided") == "true":
            self.decisions.pop(key_of(query), None)
        for key in [
            key for key in self.staged if key[1:] == (query["writer"], int(query["batch"]))
        ]:
            del self.staged[key]
        return OK

    def _handler(node) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet, or the second waits for an ACK

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                node.headers.append(dict(self.headers))
                status, answer = node.answer(url.path, query, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def key_of(query: Query) -> tuple[str, str]:
    """A writer, and the one topic that it decides on."""
    return query["writer"], query.get("scope", "")


def unpacked(body: bytes) -> list[bytes]:
    """The messages of an MPUB's body."""
    return [each for _, each in _messages(body, 0)]


def staged_messages(body: bytes) -> list[tuple[int, bytes]]:
    """Delay and bytes of each message of a staged chunk."""
    return _messages(body, 4)


def _messages(body: bytes, more: int) -> list[tuple[int, bytes]]:
    (count,), at, found = struct.unpack_from(">I", body), 4, []
    for _ in range(count):
        (size,) = struct.unpack_from(">I", body, at)
        delay = struct.unpack_from(">I", body, at + 4)[0] if more else 0
        at += 4 + more
        found.append((delay, body[at : at + size]))
        at += size
    assert at == len(body)
    return found
