"""The description that a node gives of itself in its answer to IDENTIFY (NSQ spec 1.5)."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Final

_LAYERS: Final = ("tls", "deflate", "snappy")


class StrangeAnswerError(ValueError):
    """An answer that no node gives; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The limits of the node and what was agreed upon; times in milliseconds, sizes in bytes."""

    max_rdy_count: int = 2500
    version: str = ""
    max_msg_timeout: int = 900_000
    msg_timeout: int = 60_000
    tls_v1: bool = False
    deflate: bool = False
    deflate_level: int = 6
    max_deflate_level: int = 6
    snappy: bool = False
    sample_rate: int = 0
    auth_required: bool = False
    output_buffer_size: int = 16384
    output_buffer_timeout: int = 250

    @property
    def layers(self) -> list[str]:
        """The layers that the node puts on now, the outermost first."""
        asked = (self.tls_v1, self.deflate, self.snappy)
        return [name for name, wanted in zip(_LAYERS, asked, strict=True) if wanted]

    @classmethod
    def of(cls, answer: bytes) -> ServerInfo:
        """Read the answer to IDENTIFY; all defaults for a node that does not negotiate.

        What is missing or null has its default, the unknown is left out. Raises StrangeAnswerError.
        """
        # A node that does not negotiate answers OK; go-nsq then goes on with its defaults, too.
        if not answer.startswith(b"{"):
            return cls()
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise StrangeAnswerError(f"the answer to IDENTIFY is not JSON: {error}") from error
        known = [each.name for each in fields(cls) if found.get(each.name) is not None]
        return cls(**{name: _checked(name, found[name]) for name in known})


def _checked(name: str, value: Any) -> Any:
    kind = type(getattr(_DEFAULTS, name))
    # Not isinstance, for which True is an int.
    if type(value) is not kind:
        raise StrangeAnswerError(f"the answer to IDENTIFY has {name} {json.dumps(value)[:50]}")
    return value


_DEFAULTS: Final = ServerInfo()
