"""Asking an auth server about a client, and where its answer sends us (NSQ spec 1.10).

GET carries the question in the query, POST as JSON. An answer may redirect, as for any HTTP client,
or be a 403 that names the port where the same is served over https; whatever else it is, ``grants``
reads it. Bytes and values only: ``nsqd.tcp.auth_servers`` opens the connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode, urljoin, urlsplit

from penstock.cluster.exchange import ACCEPT
from penstock.core.errors import PenstockError
from penstock.core.gojson import Kind, dumps, loads_struct
from penstock.core.quote import quote
from penstock.core.redaction import without_secrets
from penstock.nsq.protocol.authorizations import Authorizations

_ACCEPT = {"Accept": ACCEPT}
_POST_HEADERS = {**_ACCEPT, "Content-Type": "application/json"}
_REDIRECTS = (301, 302, 303, 307, 308)
# As Go's HTTP client: these make a GET of a POST, 307 and 308 repeat it (NSQ spec 6.5).
_BECOMES_GET = (301, 302, 303)
# An answer may be a whole page of HTML, and has one line of the log.
_SHOWN_MAX = 100


class AuthError(PenstockError):
    """An auth server did not say what the client may do; the text, one line, is for the log."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The facts about a client that an auth server is told.

    ``remote_ip`` is empty on a unix socket, ``common_name`` without a client certificate.
    """

    secret: bytes = field(repr=False)
    remote_ip: str = ""
    is_tls: bool = False
    common_name: str = ""

    def parameters(self) -> dict[str, str | bytes]:
        """The parameters in the order of the alphabet, as Go encodes them."""
        return {
            "common_name": self.common_name,
            "remote_ip": self.remote_ip,
            "secret": self.secret,
            "tls": "true" if self.is_tls else "false",
        }


@dataclass(frozen=True, slots=True)
class Question:
    """An HTTP request to an auth server. The URL and the body hold the secret: not for the log."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)

    @property
    def origin(self) -> str:
        """The server it goes to, for the log: ``https://host:port``."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def question(address: str, credentials: Credentials, method: str) -> Question:
    """A request to ``address`` (``host:port``, or a URL to be used as is) by "get" or "post"."""
    # A URL is used as it is since nsqd 1.2.1 (NSQ spec 3.15).
    url = address if "://" in address else f"http://{address}/auth"
    parameters = credentials.parameters()
    if method == "post":
        # Go marshals query values, so each is an array of one (NSQ spec 1.10).
        fields = {name: [_text(value)] for name, value in parameters.items()}
        return Question("POST", url, _POST_HEADERS, dumps(fields))
    return Question("GET", f"{url}?{urlencode(parameters)}", _ACCEPT)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def follow(
    asked: Question, status: int, headers: Mapping[str, str], body: bytes
) -> Question | None:
    """The question to ask next if the answer sends us on, else None.

    ``headers`` have lower-case names. Raises AuthError for a way back from https to http, on which
    the secret would be readable.
    """
    location = headers.get("location")
    if status in _REDIRECTS and location:
        return _redirected(asked, status, location)
    if status == 403 and not asked.url.startswith("https"):
        return _over_https(asked, body)
    return None


def _redirected(asked: Question, status: int, location: str) -> Question:
    try:
        url = urljoin(asked.url, location)
        scheme = urlsplit(url).scheme
    except ValueError:
        shown = quote(without_secrets(location))
        raise AuthError(f"redirected to {shown}, which is not an address") from None
    if asked.url.startswith("https:") and scheme != "https":
        raise AuthError("redirected from https to http, where the secret would be readable")
    if status in _BECOMES_GET:
        return Question("GET", url, _ACCEPT)
    return replace(asked, url=url)


def _over_https(asked: Question, body: bytes) -> Question | None:
    try:
        port = loads_struct(body, {"https_port": Kind.INT})["https_port"]
        parts = urlsplit(asked.url)
    except ValueError:
        return None
    if not 0 < port < 65536:
        return None
    user, at, _ = parts.netloc.rpartition("@")
    # ``hostname`` has lost the brackets of an IPv6 address.
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    netloc = f"{user}{at}{host}:{port}"
    return replace(asked, url=parts._replace(scheme="https", netloc=netloc).geturl())


def grants(status: int, body: bytes) -> Authorizations:
    """Permissions in an answer that is not a redirect. Raises AuthError unless 200 and valid."""
    # Exactly 200: nsqd refuses a 201 as well (NSQ spec 1.10).
    if status != 200:
        rest = "..." if len(body) > _SHOWN_MAX else ""
        raise AuthError(f"got response {status} {quote(body[:_SHOWN_MAX])}{rest}")
    try:
        return Authorizations.parse(body)
    except ValueError as error:
        raise AuthError(str(error)) from error


def auth_answer(granted: Authorizations) -> bytes:
    """The data of the response frame to AUTH."""
    return dumps(
        {
            "identity": granted.identity,
            "identity_url": granted.identity_url,
            "permission_count": len(granted.entries),
        }
    )
