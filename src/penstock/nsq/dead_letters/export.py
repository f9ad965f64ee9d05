"""Dead letters as lines of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.nsq.stored import Stored, as_object


def described(node: str, topic: str, letter: Stored) -> dict[str, Any]:
    """A letter with where it lies, as JSON has it."""
    return {"node": node, "topic": topic, **as_object(letter)}


def _json(node: str, topic: str, letter: Stored) -> bytes:
    return msgspec.json.encode(described(node, topic, letter)) + b"\n"


def _raw(node: str, topic: str, letter: Stored) -> bytes:
    return letter.body + b"\n"


FORMS: Final[dict[str, Callable[[str, str, Stored], bytes]]] = {"json": _json, "raw": _raw}
"""Functions that turn a letter into a line: JSON with where it came from, or the body alone."""
