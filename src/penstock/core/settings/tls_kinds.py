"""The two kinds of TLS options that NSQ reads in its own way."""

from __future__ import annotations

import enum
from typing import Any

from penstock.core.quote import quote
from penstock.core.settings.option_kinds import Bool, Kind


class TlsRequired(enum.IntEnum):
    """Duty to use TLS; the numbers are the ones NSQ shows in its configuration answers."""

    NO = 0
    EXCEPT_HTTP = 1
    YES = 2


class TlsRequiredKind(Kind):
    """A switch (``true``, ``false``) that also knows ``tcp-https``: TLS for all but plain HTTP."""

    placeholder = ""
    form = "true, tcp-https or false"
    is_switch = True
    is_choice = True

    def from_flag(self, text: str) -> TlsRequired:
        word = text.lower()
        if word == "tcp-https":
            return TlsRequired.EXCEPT_HTTP
        return TlsRequired.YES if Bool().from_config(word) else TlsRequired.NO

    def from_config(self, value: Any) -> TlsRequired:
        return self.from_flag(str(value))

    def show(self, value: Any) -> str:
        return str(int(value))

    def show_default(self, value: Any) -> str:
        return {TlsRequired.YES: "true", TlsRequired.EXCEPT_HTTP: "tcp-https"}.get(value, "")


class TlsMinVersionKind(Kind):
    """``tls1.0`` (also when empty) to ``tls1.3``, held as the protocol's own number, 769 to 772."""

    placeholder = "value"
    is_choice = True

    _VERSIONS = {"": 769, "tls1.0": 769, "tls1.1": 770, "tls1.2": 771, "tls1.3": 772}  # noqa: RUF012

    def from_flag(self, text: str) -> int:
        version = self._VERSIONS.get(text.lower())
        if version is None:
            raise ValueError(f"unknown tlsVersionOption {quote(text)}")
        return version

    def from_config(self, value: Any) -> int:
        return self.from_flag(str(value))

    def show_default(self, value: Any) -> str:
        return f"tls1.{value - 769}"


TLS_REQUIRED = TlsRequiredKind()
TLS_MIN_VERSION = TlsMinVersionKind()
