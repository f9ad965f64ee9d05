"""Memory by the place of its allocation, while ``tracemalloc`` watches.

Watching makes every allocation several times slower, so it is on only for the time that somebody
asks for; what was allocated before is not seen. The environment's PYTHONTRACEMALLOC=16 watches
from the start.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from penstock.core.clock import Clock
from penstock.net.profiles.call_stacks import FURTHER_STACKS, STACKS_MAX, Frame
from penstock.net.profiles.pprof import Profile, ValueType

FRAMES: Final = 16
"""Frames of a stack that are kept for each allocation."""
_SPACE: Final = ValueType("inuse_space", "bytes")
_LISTED: Final = 50


class HeapProfile:
    """A snapshot of what is watched. ``take`` may be called in any thread."""

    def __init__(self, clock: Clock) -> None:
        self._time_ns = clock.wall_ns()
        self._snapshot: tracemalloc.Snapshot | None = None

    def take(self) -> None:
        """Look at all that was allocated while watched and is still there.

        The work is in what follows, which is quicker when nothing is watched any more.
        """
        self._snapshot = tracemalloc.take_snapshot()

    def _statistics(self) -> list[tracemalloc.Statistic]:
        """The statistics by stack, the largest first."""
        assert self._snapshot is not None, "take() comes first"
        mine = tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)
        return self._snapshot.filter_traces([mine]).statistics("traceback")

    def pprof(self) -> bytes:
        """The profile for ``go tool pprof``."""
        profile = Profile(
            (ValueType("inuse_objects", "count"), _SPACE),
            program=sys.argv[0],
            time_ns=self._time_ns,
            period=(ValueType("space", "bytes"), 1),
            default="inuse_space",
        )
        statistics = self._statistics()
        places = _Places(each.filename for one in statistics for each in one.traceback)
        for one in statistics[:STACKS_MAX]:
            # tracemalloc has the innermost frame last, pprof first.
            stack = [places.frame(each.filename, each.lineno) for each in reversed(one.traceback)]
            profile.add(stack, (one.count, one.size))
        rest = statistics[STACKS_MAX:]
        if rest:
            values = sum(one.count for one in rest), sum(one.size for one in rest)
            profile.add([FURTHER_STACKS], values)
        return profile.encode()

    def text(self) -> str:
        """The largest ones for people."""
        statistics = self._statistics()
        size = sum(each.size for each in statistics)
        count = sum(each.count for each in statistics)
        lines = [f"watched: {size} bytes in {count} objects; the largest places first\n"]
        for one in statistics[:_LISTED]:
            lines.append(f"\n{one.size} bytes in {one.count} objects\n")
            lines += [f"{line}\n" for line in one.traceback.format()]
        return "".join(lines)


def is_watching() -> bool:
    return tracemalloc.is_tracing()


def watch() -> None:
    """Have allocations recorded from now on, with their stacks."""
    tracemalloc.start(FRAMES)


def unwatch() -> None:
    """Forget them, and be quick again."""
    tracemalloc.stop()


_Span = tuple[int, int, str]


class _Places:
    """The functions around lines: tracemalloc knows files and lines, loaded modules the rest."""

    def __init__(self, files: Iterable[str]) -> None:
        self._functions = _functions(files)
        self._known: dict[tuple[str, int], Frame] = {}

    def frame(self, file: str, line: int) -> Frame:
        known = self._known.get((file, line))
        if known is None:
            known = self._known[file, line] = self._find(file, line)
        return known

    def _find(self, file: str, line: int) -> Frame:
        around = [each for each in self._functions.get(file, ()) if each[0] <= line <= each[1]]
        if not around:
            return Frame(f"{file}:{line}", file, line, 0)
        first, _, name = max(around)  # the innermost begins last
        return Frame(name, file, line, first)


def _functions(files: Iterable[str]) -> dict[str, list[_Span]]:
    """The first line, last line and name of each function of the loaded modules, by file."""
    wanted = set(files)
    found: dict[str, list[_Span]] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, ModuleType) and file in wanted:
            codes = [code for value in vars(module).values() for code in _codes(value, file)]
            found[file] = [_span(code, module.__name__) for code in codes]
    return found


def _codes(value: Any, file: str) -> Iterator[CodeType]:
    """The code of a function, or of the methods of a class, and of all functions inside."""
    if isinstance(value, type):
        for member in vars(value).values():
            if not isinstance(member, type):
                yield from _codes(member, file)
        return
    for function in (value, getattr(value, "__func__", None), getattr(value, "fget", None)):
        if isinstance(function, FunctionType) and function.__code__.co_filename == file:
            yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _span(code: CodeType, module: str) -> _Span:
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return code.co_firstlineno, last, f"{module}.{code.co_qualname}"
