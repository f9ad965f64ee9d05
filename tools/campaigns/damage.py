"""Damage to every kind of file of a data path: never a wrong message, and never a silent loss.

A node fills a data path and stops. Each case damages one file of a copy, or swaps two, and starts a
node on it. Messages may be missing only from the damaged batches, and an ERROR line must report
that. A node that refuses to start, with one line, is right, too.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.net.http.client.once import request
from penstock.storage.recovery.scan import scan
from penstock.testing.daemons import DaemonError

from .furnished import (
    FLAGS,
    PLAIN,
    ROCKET,
    ROCKET_FIRST,
    SECONDS_MAX,
    Contents,
    examine,
    furnish,
)
from .node import Node, run_node
from .report import Result, explained, progress, say

_FIRST: Final = {PLAIN: 0, ROCKET: ROCKET_FIRST}
_TOLD: Final = re.compile(r" (?:ERROR|FATAL): ")
_HINTED: Final = re.compile(r" (?:WARNING|ERROR|FATAL): ")
ALL: Final = 1 << 62
_TEXTS: Final = frozenset({".json", ".dat", ".bak"})
_DIGITS: Final = b"0123456789"


@dataclass
class Case:
    """One way to damage one file."""

    what: str
    path: Path
    """The file's path below the data path."""
    spoil: Callable[[Path], None]
    """Does the damage to a data path."""
    touched: list[tuple[Path, int, int]] = field(default_factory=list)
    """The changed files, each with the first changed byte and the end of the change."""


async def damage(samples: int, rng: random.Random, cases_max: int = 1 << 30) -> Result:
    """Damage each file in each way; `samples` is the number of flipped bits at random places.

    If there are more cases than `cases_max`, they are drawn at random, too.
    """
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-damage-") as folder:
        pristine = Path(folder, "pristine")
        with run_node(*FLAGS, data_path=pristine) as node:
            contents = await furnish(node, rng)
            assert node.stop() == 0
        cases = list(_cases(pristine, samples, rng))
        if len(cases) > cases_max:
            cases = rng.sample(cases, cases_max)
        for number in progress(len(cases), lambda: f"{dict(outcomes)}"):
            case = cases[number - 1]
            outcome = await _try(case, pristine, Path(folder, "spoiled"), contents)
            if outcome.startswith("fault"):
                faults.append(f"{case.path}: {case.what}: {outcome}")
                say(faults[-1])
            outcomes[outcome.partition(":")[0]] += 1
    cases = cases[: outcomes.total()]
    files = len({case.path for case in cases})
    found = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return Result("damaged files", f"{len(cases)} cases, {files} files", found, faults)


# --- what is done to a file --------------------------------------------------------------------


def _cases(pristine: Path, samples: int, rng: random.Random) -> Iterator[Case]:
    paths = [path.relative_to(pristine) for path in sorted(pristine.rglob("*")) if path.is_file()]
    for path in paths:
        size = (pristine / path).stat().st_size
        for _ in range(samples):
            yield _flipped(path, rng.randrange(size), 1 << rng.randrange(8))
        for left in {0, size // 2, rng.randrange(size), size - 1}:
            yield _truncated(path, left)
        start = rng.randrange(size)
        yield _overwritten(path, "zeros", start, bytes(min(512, size - start)))
        yield _overwritten(path, "noise", start, rng.randbytes(min(512, size - start)))
        yield _overwritten(path, "noise behind its end", size, rng.randbytes(100))
        if path.suffix in _TEXTS:
            yield from _miscounted(path, (pristine / path).read_bytes(), samples, rng)
        yield _deleted(path)
        alike = [other for other in paths if other.suffix == path.suffix and other != path]
        for other in rng.sample(alike, min(2, len(alike))):
            yield _swapped(path, other)


def _flipped(path: Path, position: int, bit: int) -> Case:
    def spoil(root: Path) -> None:
        data = bytearray((root / path).read_bytes())
        data[position] ^= bit
        (root / path).write_bytes(data)

    return Case(f"bit {bit} of byte {position} flipped", path, spoil,
                [(path, position, position + 1)])  # fmt: skip


def _truncated(path: Path, left: int) -> Case:
    def spoil(root: Path) -> None:
        (root / path).write_bytes((root / path).read_bytes()[:left])

    return Case(f"cut to {left} bytes", path, spoil, [(path, left, ALL)])


def _overwritten(path: Path, what: str, start: int, junk: bytes) -> Case:
    def spoil(root: Path) -> None:
        data = (root / path).read_bytes()
        (root / path).write_bytes(data[:start] + junk + data[start + len(junk) :])

    return Case(f"{what} at {start}", path, spoil, [(path, start, start + len(junk))])


def _miscounted(path: Path, data: bytes, samples: int, rng: random.Random) -> Iterator[Case]:
    """Other digits, which leave the file readable."""
    places = [at for at, byte in enumerate(data) if byte in _DIGITS]
    for place in rng.sample(places, min(samples, len(places))):
        other = rng.choice([digit for digit in _DIGITS if digit != data[place]])
        yield _overwritten(path, f"{chr(data[place])} made {chr(other)}", place, bytes([other]))


def _deleted(path: Path) -> Case:
    def spoil(root: Path) -> None:
        (root / path).unlink()

    return Case("deleted", path, spoil, [(path, 0, ALL)])


def _swapped(path: Path, other: Path) -> Case:
    def spoil(root: Path) -> None:
        first, second = (root / path).read_bytes(), (root / other).read_bytes()
        (root / path).write_bytes(second)
        (root / other).write_bytes(first)

    return Case(f"swapped with {other}", path, spoil, [(path, 0, ALL), (other, 0, ALL)])


# --- outcomes ----------------------------------------------------------------------------------


async def _try(case: Case, pristine: Path, spoiled: Path, contents: Contents) -> str:
    """The outcome in words; `fault: ...` if a promise was broken."""
    shutil.rmtree(spoiled, ignore_errors=True)
    shutil.copytree(pristine, spoiled)
    case.spoil(spoiled)
    try:
        with run_node(*FLAGS, data_path=spoiled) as node:
            try:
                return await _outcome(node, case, pristine, contents)
            except Exception as error:
                return f"fault: {explained(error)}, log:\n{node.log()[-2000:]}"
    except DaemonError as error:
        refused = _TOLD.search(str(error)) and "Traceback" not in str(error)
        return "refused" if refused else f"fault: it did not start: {error}"


async def _outcome(node: Node, case: Case, pristine: Path, contents: Contents) -> str:
    health = await request("GET", f"http://{node.http}/ping", SECONDS_MAX)
    found = await examine(node, contents)
    log = node.log()
    missing = (contents.plain - found.unread) | (contents.unfinished - found.read)
    missing |= set(contents.rocket.values()) - found.rocket
    intact = missing - _touched(case, pristine)
    if found.wrong:
        return f"fault: wrong: {found.wrong[:3]}"
    if "Traceback" in log:
        return f"fault: {log[log.index('Traceback') :][:2000]}"
    if intact:
        return f"fault: {len(intact)} intact messages are lost, {sorted(intact)[:5]} ..."
    if missing and not _TOLD.search(log):
        return f"fault: {len(missing)} messages are lost without an ERROR; /ping: {health.body!r}"
    if found.behind and not _HINTED.search(log):
        return f"fault: groups are back without a word: {found.behind}"
    if missing:
        return "lost what was spoiled and said so"
    return "nothing lost, and a word" if _HINTED.search(log) else "nothing lost"


def _touched(case: Case, pristine: Path) -> set[int]:
    """The numbers of the messages in changed batches."""
    numbers: set[int] = set()
    for path, start, end in case.touched:
        first = _FIRST.get(path.parent.name.partition("@")[0])
        if path.suffix != ".log" or first is None:
            continue
        found = scan((pristine / path).read_bytes())
        for position, batch in zip(found.positions, found.batches, strict=True):
            if position < end and position + len(batch.raw) > start:
                numbers.update(range(first + batch.first_offset, first + batch.next_offset))
    return numbers
