"""The stacks of threads and tasks, as values that can outlive the frames."""

from __future__ import annotations

import asyncio
import linecache
import sys
import threading
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

DEPTH_MAX: Final = 200
"""Frames of one stack that are looked at, from the innermost outwards."""


class Frame(NamedTuple):
    """A place in a function. Lines count from 1."""

    function: str
    file: str
    line: int
    first_line: int


STACKS_MAX: Final = 20_000
"""Different stacks that a profile tells apart."""
FURTHER_STACKS: Final = Frame("(further stacks)", "", 0, 0)
"""The frame that stands for all the others."""


class Stack(NamedTuple):
    """The frames of one thread or task, innermost first."""

    kind: str
    name: str
    frames: list[Frame]


def frame(code: CodeType, line: int, module: str) -> Frame:
    """The frame as a value; ``module`` is the name of the module that the code belongs to."""
    return Frame(f"{module}.{code.co_qualname}", code.co_filename, line, code.co_firstlineno)


def frames_of(innermost: FrameType | None) -> list[Frame]:
    """The frame and its callers."""
    found: list[Frame] = []
    while innermost is not None and len(found) < DEPTH_MAX:
        found.append(_frame(innermost))
        innermost = innermost.f_back
    return found


def _frame(at: FrameType) -> Frame:
    return frame(at.f_code, at.f_lineno or 0, str(at.f_globals.get("__name__", "?")))


def threads() -> list[Stack]:
    """Every thread that runs Python code."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        Stack("thread", names.get(ident, str(ident)), frames_of(innermost))
        for ident, innermost in sys._current_frames().items()
    ]


def tasks() -> list[Stack]:
    """Every task of the running event loop, down to the innermost coroutine that it awaits."""
    return [
        Stack("task", task.get_name(), _awaited(task.get_coro())) for task in asyncio.all_tasks()
    ]


def _awaited(awaitable: Any) -> list[Frame]:
    """The frames of a coroutine and of what it waits for, innermost first.

    asyncio itself shows only the outermost frame of a suspended task.
    """
    found: list[Frame] = []
    while awaitable is not None and len(found) < DEPTH_MAX:
        at = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if at is None:
            break
        found.append(_frame(at))
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return found[::-1]


def as_text(stacks: list[Stack]) -> str:
    """Stacks for people, outermost frame first, as tracebacks have them."""
    parts = []
    for kind, name, frames in stacks:
        lines = [f"{kind} {name}\n"]
        for each in reversed(frames):
            lines.append(f'  File "{each.file}", line {each.line}, in {each.function}\n')
            if source := linecache.getline(each.file, each.line).strip():
                lines.append(f"    {source}\n")
        parts.append("".join(lines))
    return "\n".join(parts)
