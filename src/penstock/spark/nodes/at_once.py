"""One question to many nodes at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS_MAX: Final = 16
_Key = TypeVar("_Key")
_Answer = TypeVar("_Answer")


def at_once(ask: Callable[[_Key], _Answer], keys: Iterable[_Key]) -> dict[_Key, _Answer]:
    """The answer for each key, in their order; raises the error of the first that failed."""
    asked = list(dict.fromkeys(keys))
    if len(asked) < 2:
        return {key: ask(key) for key in asked}
    with ThreadPoolExecutor(min(THREADS_MAX, len(asked))) as pool:
        return dict(zip(asked, pool.map(ask, asked), strict=True))
