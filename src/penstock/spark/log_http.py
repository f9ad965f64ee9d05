"""A private minimal client of the log endpoints, until penstock.nsq.client.log is there."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlencode


class LogError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, answer: dict[str, Any]) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message
        self.answer = answer


class LogClient:
    def __init__(self, address: str, timeout: float = 10.0) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)

    def _request(self, method: str, path: str, body: bytes | None = None, **query: object) -> bytes:
        try:
            self._connection.request(method, f"{path}?{urlencode(query)}", body=body)
            response = self._connection.getresponse()
            answer = response.read()
        except BaseException:
            self._connection.close()
            raise
        if response.status == 200:
            return answer
        try:
            parsed = json.loads(answer)
        except ValueError:
            parsed = {}
        raise LogError(response.status, str(parsed.get("message", "")), parsed)

    def lookup(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._request("GET", "/lookup", topic=topic))
        return found

    def offsets(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._request("GET", "/log/offsets", topic=topic))
        return found

    def fetch(self, topic: str, queue: int, offset: int, max_bytes: int) -> bytes:
        return self._request(
            "GET", "/log/fetch", topic=topic, queue=queue, offset=offset, max_bytes=max_bytes
        )

    def commit(self, topic: str, group: str, offsets: dict[str, int]) -> None:
        body = json.dumps({"offsets": offsets}).encode()
        self._request("POST", "/log/commit", body, topic=topic, group=group)
