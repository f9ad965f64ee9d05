"""A guard against pages of other sites that make a browser change things on this server.

A page can make the browser that shows it send requests to any address that the browser reaches,
this server among them. If the page's own host name is made to point to this server (DNS rebinding),
the page can even read the answers. Browsers state the origin of a request in its headers; other
programs do not, and are let in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final

from penstock.core.settings.web_options import ANY, WebOptions
from penstock.net.http.server.head import Head

FORWARDED_HOST: Final = b"x-forwarded-host"
_SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_OWN: Final = (b"same-origin", b"none")  # none: typed by the user, or the browser's own request
_DEFAULT_PORTS: Final = {b"http": b":80", b"https": b":443"}
_PORT: Final = re.compile(rb":[0-9]*$")
_SHOWN_MAX: Final = 200


class Guard:
    """The rules of one server: other origins that may change things, and hosts it answers to.

    ``is_proxy`` is true for the address of a client whose X-Forwarded-Host can be trusted.
    """

    def __init__(
        self,
        origins: Iterable[str] = (),
        hosts: Iterable[str] = (),
        is_proxy: Callable[[str], bool] = lambda remote: False,
    ) -> None:
        self._any_origin = ANY in origins
        self._origins = frozenset(each.lower().encode() for each in origins)
        self._hosts = frozenset(each.lower().encode() for each in hosts)
        self._is_proxy = is_proxy

    @classmethod
    def of(cls, options: WebOptions, *own: str) -> Guard:
        """Build the guard from options; ``own`` are the names that this server announces."""
        hosts = (*options.http_allowed_hosts, *own) if options.http_allowed_hosts else ()
        return cls(options.http_allowed_origins, hosts)

    def refusal(self, head: Head, remote: Callable[[], str], *, is_safe: bool) -> str:
        """The reason to refuse the request, in words for its sender; empty if it is allowed.

        ``is_safe`` is False if even a GET has an effect.
        """
        if self._hosts and not self._answers_to(head.headers.get(b"host", b"")):
            return _told(head, b"host", "is not allowed", "--http-allowed-host=<name>")
        if (is_safe and head.method in _SAFE) or self._any_origin:
            return ""
        return self._cross_site(head, remote)

    def _answers_to(self, host: bytes) -> bool:
        """True if this Host header is allowed, is an IP address, or is empty."""
        name = _PORT.sub(b"", host := host.lower()).rstrip(b".")
        if not name or name in self._hosts or host in self._hosts:
            return True
        try:
            ip_address(name.strip(b"[]").decode("latin-1"))
        except ValueError:
            return False
        return True  # DNS rebinding needs a name

    def _cross_site(self, head: Head, remote: Callable[[], str]) -> str:
        """The rules of Go's http.CrossOriginProtection, extended to the host that a proxy was asked
        for.
        """
        headers = head.headers
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if site in _OWN or (site is None and origin is None) or origin in self._origins:
            return ""
        option = f"--http-allowed-origin={_text(origin or b'<origin>')}"
        if site is not None:
            return _told(head, b"sec-fetch-site", "has no right to change things here", option)
        assert origin is not None
        asked = [headers.get(b"host", b"")]
        if FORWARDED_HOST in headers and self._is_proxy(remote()):
            asked.append(headers[FORWARDED_HOST].partition(b",")[0].strip())
        if any(_is_of(origin, each) for each in asked):
            return ""
        return _told(head, b"origin", "is another site's", option)


def _is_of(origin: bytes, host: bytes) -> bool:
    """True if the origin is of this host, with any scheme: a proxy may have ended TLS."""
    scheme, _, place = origin.lower().partition(b"://")
    port = _DEFAULT_PORTS.get(scheme, b"")
    return bool(place) and place.removesuffix(port) == host.lower().removesuffix(port)


def _told(head: Head, name: bytes, what: str, option: str) -> str:
    header = "-".join(part.capitalize() for part in name.decode().split("-"))
    return f"the header {header}: {_text(head.headers.get(name, b''))} {what} (see {option})"


def _text(value: bytes) -> str:
    return value[:_SHOWN_MAX].decode("ascii", "replace")
