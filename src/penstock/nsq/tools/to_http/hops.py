"""Requests, and where their answers send them on to, without I/O (NSQ spec 6.5).

A hop is one request with its answer. Redirects are followed as Go's client follows them: 301, 302
and 303 make a GET without a body of anything, 307 and 308 repeat the request elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus, urljoin

from penstock.core.quote import quote
from penstock.core.redaction import without_secrets, without_user
from penstock.net.http.client.answer import request_head
from penstock.nsq.tools.to_http.urls import BadUrl, Url, parse_url

# Go's client stops there, too.
HOPS_MAX: Final = 10
"""Requests for one message."""

_TO_GET: Final = (301, 302, 303)
_REPEATED: Final = (307, 308)
_DATA: Final = "%s"
_NOT_SENT: Final = frozenset(("Host", "Content-Length", "Transfer-Encoding", "Trailer"))
"""Fields that only we ourselves can know."""
_SECRETS: Final = frozenset(("Authorization", "Www-Authenticate", "Cookie", "Cookie2"))
"""Fields for the origin that was meant, not for where it sends us."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One request. ``fields`` are its own header fields, by their canonical names."""

    method: str
    url: Url
    fields: Mapping[str, str]
    body: bytes = b""

    def encode(self) -> bytes:
        """The request as bytes. Raises ValueError for fields that cannot be sent."""
        own = dict(self.fields)
        head = {"Host": self.url.host, "User-Agent": own.pop("User-Agent", "")}
        if self.method == "POST":
            head["Content-Length"] = str(len(self.body))
        if self.url.authorization:
            own.setdefault("Authorization", self.url.authorization)
        for name in sorted(own):
            head[name] = own[name]
        # Go's client says this unless told otherwise. What comes back is thrown away.
        head.setdefault("Accept-Encoding", "gzip")
        return request_head(self.method, self.url.target, head) + self.body

    def next(self, status: int, location: str) -> Hop | None:
        """The request that this answer asks for, if it does. Raises BadUrl and Unusable."""
        if not location or status not in (*_TO_GET, *_REPEATED):
            return None
        try:
            url = parse_url(urljoin(self.url.text, location))
        except ValueError as error:
            raise BadUrl(f"parse {quote(location)}: {error}") from None
        dropped = set() if _is_within(url, self.url) else set(_SECRETS)
        method, body = self.method, self.body
        if status in _TO_GET:
            method, body = "GET", b""
            dropped |= {name for name in self.fields if name.startswith("Content-")}
        fields = {name: value for name, value in self.fields.items() if name not in dropped}
        # As Go's client, which tells a plain origin nothing about a secure one.
        if self.url.origin.is_secure <= url.origin.is_secure:
            fields.setdefault("Referer", _referer(self.url))
        return Hop(method, url, fields, body)


class Endpoint:
    """The destination of messages: an address of --post, or a template of --get."""

    def __init__(self, method: str, address: str, fields: Mapping[str, str]) -> None:
        self.address = address
        self.is_post = method == "POST"
        self._fields = fields
        self._url: Url | None = None
        self._halves: tuple[str, str] | None = None

    def hop(self, body: bytes) -> Hop:
        """The request for one message. Raises BadUrl and Unusable."""
        if self.is_post:
            if self._url is None:
                self._url = parse_url(self.address)
            return Hop("POST", self._url, self._fields, body)
        return Hop("GET", self._filled_in(_escaped(body)), self._fields)

    def shown(self, body: bytes) -> str:
        """The URL for one message as it may be logged, whether it is one or not."""
        text = self.address if self.is_post else fill_in(self.address, _escaped(body))
        return without_secrets(text)

    def accepts(self, status: int) -> bool:
        """True if the message has arrived."""
        # nsq_to_http in Go takes 200 alone for a GET, and any 2xx for a POST.
        return 200 <= status < 300 if self.is_post else status == 200

    def _filled_in(self, data: str) -> Url:
        if self._url is None:
            self._prepare()
        if self._url is None or self._halves is None:
            return parse_url(fill_in(self.address, data))
        before, after = self._halves
        return self._url._replace(target=before + data + after, text=fill_in(self.address, data))

    def _prepare(self) -> None:
        """Read the template once, when the data goes into path or query, as nearly always."""
        row = "x"
        while row in self.address:
            row += "x"
        mark = f"y{row}y"
        url = parse_url(fill_in(self.address, mark))
        before, found, after = url.target.partition(mark)
        if found:
            self._url = url
            self._halves = before, after


def is_template(address: str) -> bool:
    """True if there is exactly one place for the data."""
    return address.count(_DATA) == 1 and address.replace("%%", "").count(_DATA) == 1


def fill_in(address: str, data: str) -> str:
    """The template with the data in its place; ``%%`` is a percent sign, as printf has it.

    Other percent signs stand for themselves, so that escapes in a URL need not be doubled.
    """
    before, _, after = address.replace("%%", "\x00").partition(_DATA)
    return f"{before}{data}{after}".replace("\x00", "%")


def canonical(name: str) -> str:
    """A header field's name as Go writes it: ``x-request-id`` is ``X-Request-Id``."""
    return "-".join(part.capitalize() for part in name.split("-"))


def header_fields(user_agent: str, content_type: str, custom: Mapping[str, str]) -> dict[str, str]:
    """The fields of every request; custom ones win, but some only we can know."""
    fields = {"User-Agent": user_agent}
    if content_type:
        fields["Content-Type"] = content_type
    for name, value in custom.items():
        # Go takes the host of the URL, so a --header with Host has no effect.
        if canonical(name) not in _NOT_SENT:
            fields[canonical(name)] = value
    return fields


def failure(method: str, url: str, reason: str) -> str:
    """The words of Go's client for a failed request."""
    return f"{method.capitalize()} {quote(url)}: {reason}"


def _escaped(body: bytes) -> str:
    # Go's QueryEscape writes a blank as +.
    return quote_plus(body, safe="~")


def _is_within(url: Url, of: Url) -> bool:
    """True if one goes to the host of the other, or to a part of its domain."""
    host, parent = url.origin.host.lower(), of.origin.host.lower()
    return host == parent or host.endswith(f".{parent}")


def _referer(url: Url) -> str:
    return without_user(url.text).partition("#")[0]
