"""URLs as Go's net/url reads them, because what it has to say of a bad one is in users' logs."""

from __future__ import annotations

import re
import string
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import quote as escape
from urllib.parse import unquote_to_bytes

from penstock.core.errors import PenstockError
from penstock.core.quote import quote
from penstock.core.redaction import without_secrets
from penstock.net.http.client.link import Origin

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(?=:)")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NO_HOST_CHARACTER = re.compile(r'[\x20"<>\\^`{|}/?#]')
_IN_PATHS = "%!$&'()*+,/:;=@[]~"
_IN_QUERIES = string.punctuation
_PORTS = {"http": 80, "https": 443}


class BadUrl(PenstockError):
    """A text that is not a URL; the message is Go's, with the text in it."""


class Unusable(PenstockError):
    """A URL without a place to send a request to; the message is Go's, without the URL."""


class Url(NamedTuple):
    """The target of a request: whom to connect to, and what to say there."""

    text: str
    origin: Origin
    host: str
    """The value of the Host header."""
    target: str
    """Path and query."""
    authorization: str
    """The authorization of the user in the URL; empty without one."""

    @property
    def shown(self) -> str:
        """The URL in a form that may be logged."""
        return without_secrets(self.text)


def parse_url(text: str) -> Url:
    """An http or https URL. Raises BadUrl and Unusable."""
    scheme, authority, path, query = _split(text)
    user, _, host = authority.rpartition("@")
    name, port = _host_and_port(text, host)
    if "%" in path and (bad := _BAD_ESCAPE.search(path)):
        raise _bad(text, f"invalid URL escape {quote(bad[0])}")
    if scheme not in _PORTS:
        raise Unusable(f"unsupported protocol scheme {quote(scheme)}")
    if not name:
        raise Unusable("http: no Host in request URL")
    number = int(port) if port else _PORTS[scheme]
    if number > 65535:
        raise Unusable(f"dial tcp: address {port}: invalid port")
    return Url(
        text,
        Origin(scheme == "https", name, number),
        host.removesuffix(":"),
        _target(path, query),
        _basic(user),
    )


def _split(text: str) -> tuple[str, str, str, str | None]:
    """Scheme, authority, path and query."""
    if _CONTROL.search(text):
        raise _bad(text, "net/url: invalid control character in URL")
    rest = text.partition("#")[0]
    if rest.startswith(":"):
        raise _bad(text, "missing protocol scheme")
    found = _SCHEME.match(rest)
    scheme = found[0].lower() if found else ""
    rest = rest[found.end() + 1 :] if found else rest
    path, mark, query = rest.partition("?")
    authority = ""
    if path.startswith("//"):
        authority, slash, path = path[2:].partition("/")
        path = slash + path
    elif not path.startswith("/"):
        if scheme:  # an opaque part, which names no host
            path = ""
        elif ":" in path.partition("/")[0]:
            raise _bad(text, "first path segment in URL cannot contain colon")
    return scheme, authority, path, query if mark else None


def _host_and_port(text: str, host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, bracket, port = host[1:].rpartition("]")
        if not bracket:
            raise _bad(text, "missing ']' in host")
    else:
        if bad := _NO_HOST_CHARACTER.search(host):
            raise _bad(text, f"invalid character {quote(bad[0])} in host name")
        name, colon, port = host.partition(":")
        port = colon + port
    if port and not re.fullmatch(":[0-9]*", port):
        raise _bad(text, f"invalid port {quote(port)} after host")
    if "%" in name and (bad := _BAD_ESCAPE.search(name)):
        raise _bad(text, f"invalid URL escape {quote(bad[0])}")
    return unquote_to_bytes(name).decode("utf-8", "replace"), port[1:]


def _target(path: str, query: str | None) -> str:
    target = escape(path, _IN_PATHS) or "/"
    return target if query is None else f"{target}?{escape(query, _IN_QUERIES)}"


def _basic(user: str) -> str:
    if not user:
        return ""
    name, _, password = user.partition(":")
    pair = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return f"Basic {b64encode(pair).decode()}"


def _bad(text: str, reason: str) -> BadUrl:
    return BadUrl(f"parse {quote(text)}: {reason}")
