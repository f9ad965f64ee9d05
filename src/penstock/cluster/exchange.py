"""One request to a daemon, without I/O: where it goes, what it says, what a refusal means.

The asyncio client (``http_client``) and the blocking one (``blocking``) share it. Nothing here
needs more than the standard library, as executors of Spark import it.
"""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, unquote_to_bytes, urlencode

from penstock.net.address import join_host_port, split_host_port
from penstock.net.http.reasons import REASONS

ACCEPT: Final = "application/vnd.nsq; version=1.0"
"""The header ``Accept``: an answer without the wrapping of versions before 1.0."""
PROBE: Final = "/ping"
"""The path that is asked without secrets where only the HTTPS port of a node is to be learned."""


class Timeouts(NamedTuple):
    """Seconds: for the TCP connection, and for a whole request."""

    connect: float
    request: float


class Endpoint(NamedTuple):
    """The place of a daemon: ``address`` is host:port, ``path`` goes before that of a request."""

    is_secure: bool
    address: str
    path: str = ""
    user: str = ""
    """User and password as a URL has them; no text shows them."""

    @classmethod
    def of(cls, address: str) -> Endpoint:
        """The endpoint at ``host:port``, or at a URL; either may begin with a user and password."""
        scheme, sign, rest = address.rpartition("://")
        place, slash, path = rest.partition("/") if sign else (rest, "", "")
        user, _, host = place.rpartition("@")
        if sign and ":" not in host.rpartition("]")[2]:
            # The ports that a URL leaves out; a plain address must have one.
            host += ":443" if scheme == "https" else ":80"
        return cls(scheme == "https", host, (slash + path).rstrip("/"), user)

    @property
    def headers(self) -> dict[str, str]:
        """The header that a user and password become."""
        if not self.user:
            return {}
        return {"Authorization": f"Basic {b64encode(unquote_to_bytes(self.user)).decode()}"}

    def host_and_port(self) -> tuple[str, int]:
        """The two, also of addresses whose port has a name. Raises ValueError."""
        host, colon, port = self.address.rpartition(":")
        if colon and port and not port.isdigit():
            try:
                port = str(socket.getservbyname(port))
            except OSError:
                # Go takes names of services for ports, too, such as ``:http``.
                raise ValueError(f"address {self.address}: no such port") from None
        host, number = split_host_port(f"{host}{colon}{port}")
        return host or "localhost", number

    def url(self, target: str) -> str:
        """The URL of a path and query there."""
        return f"{'https' if self.is_secure else 'http'}://{self.address}{self.path}{target}"

    def secure(self, port: int) -> Endpoint:
        """The endpoint of the same host over HTTPS. Raises ValueError."""
        host = self.host_and_port()[0]
        return self._replace(is_secure=True, address=join_host_port(host, port), path="")


def of_lookupd(address: str) -> str:
    """The URL of an nsqlookupd, which has no HTTPS port; a URL stays as it is."""
    return address if "://" in address else f"http://{address}"


def https_port(status: int, body: bytes) -> int:
    """The port that a node names which refuses plain HTTP (``--tls-required``); 0 for all else."""
    port = parsed(body).get("https_port") if status == 403 else 0
    return port if isinstance(port, int) and 0 < port < 65536 else 0


def code_of(body: bytes) -> str:
    """NSQ's code in a refusal, such as TOPIC_NOT_FOUND; empty when there is none."""
    code = parsed(body).get("message")
    return code if isinstance(code, str) else ""


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; empty for anything else."""
    try:
        answer = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def status_text(status: int) -> str:
    """A status as in a status line: ``404 Not Found``; one that has no name stays a number."""
    return f"{status} {REASONS.get(status, '')}".rstrip()


def escaped(name: str) -> str:
    """A value as a query has it: ``#`` is ``%23``, and what was not UTF-8 is as it came."""
    return quote_plus(name, errors="surrogateescape")


def target(path: str, **query: object) -> str:
    """A path with these parameters; those that are None are left out."""
    given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path
