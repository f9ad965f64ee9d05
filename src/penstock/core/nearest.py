"""The known name that a mistyped one is nearest to, for the end of an error."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], mark: str = "") -> str:
    """``; did you mean NAME?`` with ``mark`` before the name, or nothing where none is near."""
    from difflib import get_close_matches  # only who errs pays for it

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {mark}{near[0]}?" if near else ""
