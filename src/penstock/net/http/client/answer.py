"""A client's half of HTTP/1.1 without I/O: the head of a request, and reading what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import httptools

from penstock.net.http.client.not_http import NotHttpError

_HEAD_MAX = 64 * 1024
"""Bytes that an answer may take beyond twice its body: for the head, and chunks' sizes."""


class Answer(NamedTuple):
    """An HTTP response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def request_head(method: str, target: str, fields: Mapping[str, str]) -> bytes:
    """The request line and these fields in their order. ValueError for what cannot be sent."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if any("\r" in line or "\n" in line or not line.isprintable() for line in lines):
        raise ValueError("a line end or control character in the head")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class AnswerReader:
    """A parser of the answer to one request: ``feed`` it until it is ``done``.

    ``max_body`` is in bytes. A longer body is an error; with ``discard``, where only status and
    head matter, no body is kept, a longer one is not read to its end, and a broken one counts as
    whole.
    """

    def __init__(self, method: str, max_body: int, *, discard: bool = False) -> None:
        self.status = 0
        self.done = False
        self.reusable = False
        """True if the connection can take another request; known when done."""
        self._is_head = method == "HEAD"
        self._max_body = max_body
        self._discard = discard
        self._unread = 2 * max_body + _HEAD_MAX
        self._fields: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._parser = httptools.HttpResponseParser(self)

    @property
    def began(self) -> bool:
        """True if anything came at all."""
        return self._unread < 2 * self._max_body + _HEAD_MAX

    @property
    def headers(self) -> dict[str, str]:
        """The header fields by name in lower case; of several with one name the last."""
        return {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._fields
        }

    def answer(self) -> Answer:
        """The whole answer, once it is done; to be taken once.

        The reader keeps nothing of it: reader and parser hold each other, and live on for a while.
        """
        body = b"".join(self._parts)
        self._parts.clear()
        return Answer(self.status, self.headers, body)

    def feed(self, data: bytes) -> bool:
        """Take bytes; true once the answer is complete. ValueError when it is of no use."""
        self._unread -= len(data)
        if self._unread >= 0:  # otherwise a head without end, most likely
            self._parse(data)
        if self._unread < 0 or self._size > self._max_body:
            if not (self._discard and self.status):
                raise ValueError(f"the answer is longer than {self._max_body} bytes")
            self.done, self.reusable = True, False
        return self.done

    def end(self) -> bool:
        """The connection ended; whether the answer is complete with that, having had no length."""
        if not self.done and self.status:
            names = self.headers.keys()
            framed = "content-length" in names or "transfer-encoding" in names
            self.done = self._discard or not framed
        self.reusable = False
        return self.done

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.done and not self.status:
                raise NotHttpError(data) from error
            if not self.done:
                raise ValueError(f"the answer is not HTTP as it should be: {error}") from error
            self.reusable = False

    # What the parser calls. An exception raised in here would lose its text.

    def on_message_begin(self) -> None:
        if self.done:  # more than was asked for
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.done:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.done or status < 200:  # 100 Continue: the answer proper follows
            return
        self.status = status
        # A body that HEAD's answer announces never comes.
        self.done = self._is_head

    def on_body(self, body: bytes) -> None:
        if self.done:
            return
        self._size += len(body)
        if not self._discard and self._size <= self._max_body:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        if self.status and not self.done:
            self.done = True
            self.reusable = self._parser.should_keep_alive()
        elif not self.status:
            # The end of a 100 Continue, whose fields are not the answer's.
            self._fields.clear()
