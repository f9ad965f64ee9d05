"""The options of the sink ``http``."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from penstock.core.names import is_valid_name
from penstock.core.redaction import without_secrets
from penstock.net.http.fields import is_name
from penstock.spark.cluster_options import ClusterOptions
from penstock.spark.errors import OptionError
from penstock.spark.option_declarations import option, parse, positive, seconds, text
from penstock.spark.sink.sink_settings import whole_number

_HEADER = "header."
# What no line of a request can have.
_BLANKS = re.compile(r"[\x00-\x20\x7f]")
_OF_SPARK = {"path", "checkpointlocation", "queryname"}


@dataclass(frozen=True, slots=True)
class HttpSettings(ClusterOptions):
    """The options of the sink ``http``. Addresses of nodes serve dead letters only."""

    url: str = option(
        "url", text, "", "Endpoint for all bodies; a column `url` names one for each row."
    )
    content_type: str = option(
        "contentType",
        text,
        "application/octet-stream",
        "Of the bodies.",
    )
    concurrency: int = option("concurrency", positive, 8, "Requests of a task at a time.")
    request_s: float = option("requestTimeout", seconds, 20.0, "Seconds to wait for an answer.")
    retries: int | None = option(
        "retries",
        whole_number,
        None,
        "Most times that a request is sent again while the endpoint is out; then the query ends"
        " with an error, and nothing is lost. Without it the batch waits until the endpoint is"
        " back.",
    )
    dead_letters: str = option(
        "deadLetters",
        text,
        "",
        "Topic for bodies that the endpoint refuses; without it they end the query.",
    )
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> HttpSettings:
        """Settings from Spark's options; ``header.NAME`` is a header of every request.

        Raises OptionError for a missing, unknown or unusable option.
        """
        headers = {
            key[len(_HEADER) :]: value
            for key, value in options.items()
            if key.lower().startswith(_HEADER)
        }
        others = {
            key: value for key, value in options.items() if not key.lower().startswith(_HEADER)
        }
        given = parse(cls, others, _OF_SPARK, format="http")
        kind = next((name for name in headers if name.lower() == "content-type"), None)
        if kind is not None and "content_type" in given:
            raise OptionError(f"contentType and {_HEADER}{kind} are the same: give one of them")
        if kind is not None:
            given["content_type"] = headers.pop(kind)
        settings = replace(cls(**given), headers=headers)
        for name, value in {"contentType": settings.content_type, **headers}.items():
            _require_header(name, value)
        if settings.url:
            require_url(settings.url)
        if settings.dead_letters:
            if not is_valid_name(settings.dead_letters):
                raise OptionError(f"deadLetters: {settings.dead_letters!r} is not a topic's name")
            settings._require_nodes()
        return settings

    def _require_nodes(self) -> None:
        """Raise OptionError unless dead letters have nodes to go to."""
        if not self.lookupd and not self.nodes:
            raise OptionError(
                f"deadLetters={self.dead_letters} is a topic: say on which nodes, by "
                "nsqd_http_address or lookupd_http_address (host:port, several separated by commas)"
            )
        self.require_nodes()


class Endpoint(NamedTuple):
    """The parts of an endpoint's URL; ``authorization`` is that of its user, empty without one."""

    scheme: str
    host: str
    port: int
    target: str
    authorization: str = ""


def require_url(url: str) -> Endpoint:
    """An endpoint by its URL. Raises OptionError."""
    shown = without_secrets(url)
    wrong = OptionError(f"url must be http:// or https:// and a host, not {shown!r}")
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # The socket refuses names with an empty or too long part like this.
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise wrong from None
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host or _BLANKS.search(host):
        raise wrong
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii():
        raise OptionError(f"url must have other characters than ASCII as %XX: {shown!r}")
    if _BLANKS.search(target):
        raise OptionError(f"url must have spaces and control characters as %XX: {shown!r}")
    return Endpoint(parts.scheme, host, port, target, _authorization(parts))


def _authorization(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    user = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
    return f"Basic {b64encode(user).decode()}"


def _require_header(name: str, value: str) -> None:
    """Raise OptionError for what no request can carry; a value may be a secret and is not told."""
    if not is_name(name):
        raise OptionError(f"{_HEADER}{name} is not a header's name")
    if not value.isprintable() or max(value, default="") > "\xff":
        raise OptionError(f"the value of {name} has characters that no header can have")
