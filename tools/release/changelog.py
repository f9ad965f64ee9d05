"""The changelog by version: a part ``Unreleased``, and below it one for each release."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple

UNRELEASED: Final = "Unreleased"
_TITLE: Final = re.compile(r"^## (.+)\n", re.MULTILINE)
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)")


class Part(NamedTuple):
    """What one version changed."""

    title: str
    text: str

    @property
    def release(self) -> tuple[int, ...] | None:
        """The numbers of a release's version; None for any other title."""
        found = _RELEASE.fullmatch(self.title)
        return tuple(map(int, found.groups()[:3])) if found else None


def parts(changelog: str) -> list[Part]:
    """The parts, the newest first."""
    _, *found = _TITLE.split(changelog)
    return [Part(title, text.strip()) for title, text in zip(found[::2], found[1::2], strict=True)]


def faults(changelog: str) -> list[str]:
    """A line for each title that is wrong or in the wrong place."""
    first, *releases = parts(changelog)
    numbers = [part.release for part in releases]
    unsorted = any(a and b and a <= b for a, b in pairwise(numbers))
    return [
        *([f"the first part is {first.title}"] if first.title != UNRELEASED else []),
        *(f"no <version> (<date>): {part.title}" for part in releases if not part.release),
        *(["not the newest first"] if unsorted else []),
    ]


def released(changelog: str, version: str, day: date) -> str:
    """The changelog in which all that was unreleased is of this version.

    Raises ValueError if that is nothing, or the version is not newer than the last.
    """
    first, *releases = parts(changelog)
    part = Part(f"{version} ({day})", first.text)
    if part.release is None:
        raise ValueError(f"{version} is not a version such as 1.2.3")
    if not first.text:
        raise ValueError("CHANGELOG.md has nothing below Unreleased")
    if releases and part.release <= (releases[0].release or ()):
        raise ValueError(f"{version} is not newer than {releases[0].title}")
    return changelog.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {part.title}\n", 1)
