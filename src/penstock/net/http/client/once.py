"""A small HTTP/1.1 client for what daemons ask of each other: one request, one connection.

status, headers, body = await get("http://127.0.0.1:4161/lookup?topic=t", 5)
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from penstock.core.errors import PenstockError
from penstock.core.reasons import reason
from penstock.core.redaction import without_secrets
from penstock.net.address import join_host_port
from penstock.net.http.client.answer import Answer, AnswerReader, request_head
from penstock.net.http.client.link import Origin, open_link

__all__ = ["Answer", "HttpError", "get", "post", "request"]

DEFAULT_MAX_BODY = 64 << 20


class HttpError(PenstockError):
    """No usable answer came: no connection, a time-out, or bytes that are not HTTP.

    The text shows the URL without its secrets; ``reason`` is the text without method and URL.
    """

    def __init__(self, method: str, url: str, reason: str) -> None:
        super().__init__(f"{method} {without_secrets(url)}: {reason}")
        self.reason = reason


async def get(
    url: str, seconds: float, *, headers: dict[str, str] | None = None, max_body: int | None = None
) -> Answer:
    """Fetch ``url``; the whole exchange may take ``seconds``. HttpError when that fails."""
    return await request("GET", url, seconds, headers=headers, max_body=max_body)


async def post(
    url: str, seconds: float, body: bytes = b"", *, headers: dict[str, str] | None = None
) -> Answer:
    """Post ``body`` to ``url``; otherwise like ``get``."""
    return await request("POST", url, seconds, body=body, headers=headers)


async def request(
    method: str,
    url: str,
    seconds: float,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    connect_timeout: float | None = None,
    max_body: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One exchange with ``url`` (http or https); times in seconds, ``max_body`` in bytes.

    A user and password in the URL are sent as basic authorization. HttpError names the URL and what
    went wrong; an answer of any status is returned.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = SplitResult("", "", "", "", ""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise HttpError(method, url, "not an http address")
    tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
    port = port or (443 if tls else 80)
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    own = {**_authorization(parts), **(headers or {})}
    limit = DEFAULT_MAX_BODY if max_body is None else max_body
    try:
        head = _head(method, target, join_host_port(host, port), own, len(body))
        async with asyncio.timeout(seconds) as whole:
            link = await open_link(Origin(tls is not None, host, port), connect_timeout, tls)
            try:
                reader = AnswerReader(method, limit)
                await link.ask(head + body, reader)
                return reader.answer()
            finally:
                link.abort()
    except TimeoutError:
        late = "timed out" if whole.expired() else "connecting timed out"
        raise HttpError(method, url, late) from None
    except EOFError:
        raise HttpError(method, url, "the connection ended before the answer did") from None
    except (OSError, ValueError) as error:
        raise HttpError(method, url, reason(error)) from error


def _authorization(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    user = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
    return {"Authorization": f"Basic {b64encode(user).decode()}"}


def _head(method: str, target: str, host: str, headers: dict[str, str], length: int) -> bytes:
    fields = {"Host": host, "User-Agent": "penstock", "Connection": "close", **headers}
    # RFC 9110, 8.6: where a body is expected, a request says that it has none.
    if length or method in ("POST", "PUT"):
        fields["Content-Length"] = str(length)
    return request_head(method, target, fields)
