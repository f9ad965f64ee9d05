"""Keeps pages of other sites from making a browser change things here.

A page may have the browser that shows it send requests to any address that browser reaches, this
server among them, and by a name of its own that suddenly means this machine (DNS rebinding) even
read the answers. Browsers say where a request comes from; programs say nothing, and are let in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final

from penstock.core.web_options import ANY, WebOptions
from penstock.net.http_head import Head

FORWARDED_HOST: Final = b"x-forwarded-host"
_SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_OWN: Final = (b"same-origin", b"none")  # none: typed by the user, or of the browser itself
_DEFAULT_PORTS: Final = {b"http": b":80", b"https": b":443"}
_PORT: Final = re.compile(rb":[0-9]*$")
_SHOWN_MAX: Final = 200


class Guard:
    """The rules of one server: origins that may change things besides its own, hosts it answers to.

    `is_proxy` says of a client's address whether its X-Forwarded-Host is to be believed.
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
        """As the options say; `own` are names of this server that others are told."""
        hosts = (*options.http_allowed_hosts, *own) if options.http_allowed_hosts else ()
        return cls(options.http_allowed_origins, hosts)

    def refusal(self, head: Head, remote: Callable[[], str], *, is_safe: bool) -> str:
        """Why the request is refused, for its sender; empty when it is not.

        `is_safe` is False where even a GET has an effect.
        """
        if self._hosts and not self._answers_to(head.headers.get(b"host", b"")):
            return _told(head, b"host", "is not allowed", "--http-allowed-host=<name>")
        if (is_safe and head.method in _SAFE) or self._any_origin:
            return ""
        return self._cross_site(head, remote)

    def _answers_to(self, host: bytes) -> bool:
        """Whether a browser that was led here by this name is meant to be here."""
        name = _PORT.sub(b"", host := host.lower()).rstrip(b".")
        if not name or name in self._hosts or host in self._hosts:
            return True
        try:
            ip_address(name.strip(b"[]").decode("latin-1"))
        except ValueError:
            return False
        return True  # what is no name cannot be made to lead elsewhere

    def _cross_site(self, head: Head, remote: Callable[[], str]) -> str:
        """The rules of Go's http.CrossOriginProtection, and the host that a proxy was asked for."""
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
    """Whether an origin is that of a host, whatever the scheme: TLS may end before us."""
    scheme, _, place = origin.lower().partition(b"://")
    port = _DEFAULT_PORTS.get(scheme, b"")
    return bool(place) and place.removesuffix(port) == host.lower().removesuffix(port)


def _told(head: Head, name: bytes, what: str, option: str) -> str:
    header = "-".join(part.capitalize() for part in name.decode().split("-"))
    return f"the header {header}: {_text(head.headers.get(name, b''))} {what} (see {option})"


def _text(value: bytes) -> str:
    return value[:_SHOWN_MAX].decode("ascii", "replace")
