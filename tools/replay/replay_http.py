"""Replays the cases of `http.jsonl`, one after the other on one nsqd (they build on each other)."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from typing import Any

from penstock.testing.daemons import Daemon

from . import raw_http
from .connection import Connection, Miss
from .parts import Names

COMPARED = (
    "content-type",
    "x-nsq-content-type",
    "allow",
    "location",
    "x-content-type-options",
    "content-length",
)
SETTLE_S_MAX = 30.0
POLL_S = 0.02
CHUNKED_BY_GO = 2048
"""Go sends longer bodies chunked, so that its answers have no Content-Length; ours may."""
_PLACEHOLDER = re.compile(r"<\w[\w :-]*>|\{\w+\}")

Case = dict[str, Any]


class HttpSession:
    """The cases of one daemon; connections of `before` stay open until the end."""

    def __init__(self, daemon: Daemon, names: Names) -> None:
        self.daemon = daemon
        self.names = names
        self.connections: list[Connection] = []

    async def run(self, case: Case) -> None:
        """Play one case. Raises Miss where the answer differs."""
        for before in case.get("before", ()):
            await self._prepare(before)
        if any(map(_by_tcp, case.get("before", ()))):
            await self._play_once_settled(case)
        else:
            await self._play(case)

    async def _play_once_settled(self, case: Case) -> None:
        """Statistics are asked again for a moment, as nothing says when a command was processed."""
        for _ in range(int(SETTLE_S_MAX / POLL_S)):
            try:
                return await self._play(case)
            except Miss:
                await asyncio.sleep(POLL_S)
        return await self._play(case)

    async def _play(self, case: Case) -> None:
        waits = case["status"] is None
        answer = await raw_http.exchange(self.daemon.http_port, self._bytes(case), waits=waits)
        _check_head(case, answer)
        await self._check_body(case, answer)
        if "then_topic_depth" in case:
            await self._check_depth(case)

    def close(self) -> None:
        """Close what `before` opened."""
        for connection in self.connections:
            connection.close()

    def _bytes(self, case: Case) -> bytes:
        """The request; one of them is only described, being 6 MB long."""
        if "raw" not in case:
            body = None if "body" not in case else self.names.encode(case["body"])
            headers = case.get("headers", {})
            return raw_http.request(case["method"], case["path"], body, headers)
        raw: str = case["raw"]
        described = re.fullmatch(r"POST (\S+), chunked, (\d+) lines of (\d+) bytes", raw)
        if described is None:
            return raw.encode("latin-1")
        size = int(described[3])
        chunk = b"%x\r\n" % (size + 1) + b"a" * size + b"\n\r\n"
        head = f"POST {described[1]} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head.encode() + chunk * int(described[2]) + b"0\r\n\r\n"

    async def _prepare(self, before: Case) -> None:
        if "tcp" in before:
            connection = await Connection.open(self.daemon.tcp_port)
            self.connections.append(connection)
            await connection.send(self.names.encode(before["tcp"]))
        elif _by_tcp(before):
            await self._finish_one()
        else:
            await self._request_before(before)

    async def _request_before(self, before: Case) -> None:
        body = before.get("body")
        data = None if body is None else self.names.encode(body)
        path = before["path"]
        answer = await raw_http.call(self.daemon.http_port, before["method"], path, data)
        if answer.status != before["status"]:
            raise Miss(f"before: {path}", before["status"], answer.status)

    async def _finish_one(self) -> None:
        kind, data = 0, b""
        while kind != 2:
            kind, data = await self.connections[-1].frame()
            if kind < 0:
                raise Miss("before", "a message", data)
        await self.connections[-1].send(b"FIN %s\n" % struct.unpack_from("16s", data, 10))

    async def _check_body(self, case: Case, answer: raw_http.Answer) -> None:
        expected: str = case["response_body"]
        if expected.startswith("<all topics"):
            return await self._check_all_topics(answer)
        raw = answer.rest if "raw" in case else answer.body
        actual = _sort_headers(raw.decode(errors="replace"))
        if not self.names.matches(_sort_headers(expected), actual):
            raise Miss("body", expected, actual)
        return None

    async def _check_all_topics(self, answer: raw_http.Answer) -> None:
        everything = await raw_http.call(self.daemon.http_port, "GET", "/stats?format=json")
        expected = [topic["topic_name"] for topic in json.loads(everything.body)["topics"]]
        actual = [topic["topic_name"] for topic in json.loads(answer.body)["topics"]]
        if actual != expected:
            raise Miss("topics", expected, actual)

    async def _check_depth(self, case: Case) -> None:
        topic = re.search(r"topic=([^&\s]+)", case.get("path") or case["raw"])
        path = f"/stats?format=json&topic={topic[1] if topic else ''}"
        answer = await raw_http.call(self.daemon.http_port, "GET", path)
        topics = json.loads(answer.body)["topics"] or [{"depth": 0}]
        if topics[0]["depth"] != case["then_topic_depth"]:
            raise Miss("depth afterwards", case["then_topic_depth"], topics[0]["depth"])


def _by_tcp(before: Case) -> bool:
    return "tcp" in before or before.get("note", "").startswith("then FIN")


def _check_head(case: Case, answer: raw_http.Answer) -> None:
    if answer.status_line != case["status_line"]:
        raise Miss("status line", case["status_line"], answer.status_line)
    expected = {name.lower(): value for name, value in case["response_headers"].items()}
    compared = COMPARED if _length_is_known(case["response_body"]) else COMPARED[:-1]
    for name in compared:
        wanted, actual = expected.get(name), answer.headers.get(name)
        if wanted != actual:
            raise Miss(f"header {name}", wanted, actual)


def _length_is_known(body: str) -> bool:
    """Not where a placeholder stands for some of the body, or words stand for all of it."""
    told = body.startswith("<all topics") or _PLACEHOLDER.search(body)
    return len(body) <= CHUNKED_BY_GO and not told


def _sort_headers(text: str) -> str:
    """Bodies of raw exchanges hold further responses: the order of their headers is free."""

    def ordered(match: re.Match[str]) -> str:
        return match[1] + "\r\n".join(sorted(match[2].split("\r\n"))) + "\r\n\r\n"

    return re.sub(r"(HTTP/1\.[01] [^\r]*\r\n)((?:[^\r]+(?:\r\n)?)+)\r\n\r\n", ordered, text)
