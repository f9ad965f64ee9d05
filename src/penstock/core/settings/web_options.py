"""Options of every daemon that web browsers can reach."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.core.settings.option_kinds import Strings
from penstock.core.settings.options import Options, option

ANY: Final = "*"
MEMORY: Final = 256 * 1024 * 1024


class _Matching(Strings):
    """A list of strings that must all match one pattern."""

    def __init__(self, form: re.Pattern[str], refusal: str) -> None:
        self._form = form
        self._refusal = refusal

    def from_flag(self, text: str) -> tuple[str, ...]:
        if not self._form.fullmatch(text):
            raise ValueError(self._refusal)
        return (text,)

    def from_config(self, value: Any) -> tuple[str, ...]:
        return tuple(each for text in super().from_config(value) for each in self.from_flag(text))


ORIGINS: Final = _Matching(
    re.compile(r"\*|[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#@,]+"),
    "an origin is <scheme>://<host>[:<port>], without a path",
)
HOSTS: Final = _Matching(
    re.compile(r"(?:[^\s/?#@,:\[\]]+|\[[0-9a-fA-F:.]+\])(?::[0-9]+)?"),
    "a host is <name>[:<port>], without a scheme and a path",
)


class WebOptions(Options):
    """The origins and hosts that a daemon allows, and the memory that its clients may hold."""

    http_allowed_origins: tuple[str, ...] = option(
        (),
        "<scheme>://<host>[:<port>] of another site whose pages may change things, or * for "
        "any (may be given several times)",
        flag="http-allowed-origin",
        key="http_allowed_origins",
        kind=ORIGINS,
    )
    http_allowed_hosts: tuple[str, ...] = option(
        (),
        "<name>[:<port>] that the Host header may have; without this flag any (may be given "
        "several times)",
        flag="http-allowed-host",
        key="http_allowed_hosts",
        kind=HOSTS,
    )
    metrics: bool = option(default=False, help="offer /metrics, for Prometheus")
    max_request_memory: int = option(
        MEMORY, "bytes that all incomplete requests may hold together (0: any number)"
    )
    max_answer_memory: int = option(
        MEMORY,
        "bytes that all unsent answers over HTTP and to RocketMQ's clients may hold together "
        "(0: any number)",
    )
