"""Semantic versions, compared as the nodes page does it (NSQ spec 5.3, out_of_date)."""

from __future__ import annotations

import re
from typing import Final

_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION: Final = re.compile(
    rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    r"(?:-(?P<pre>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST: Final = 256

_Part = tuple[int, int, str]
Version = tuple[int, int, int, bool, tuple[_Part, ...]]
"""Ordered as versions are: major, minor, patch, whether it is a release, pre-release parts."""

LOWEST: Final[Version] = (0, 0, 0, True, ())


def parse(text: str) -> Version:
    """The sort key of a version; an invalid one sorts as 0.0.0, as in nsqadmin."""
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return LOWEST
    pre = tuple(map(_part, found["pre"].split("."))) if found["pre"] else ()
    return int(found["major"]), int(found["minor"]), int(found["patch"]), not pre, pre


def _part(text: str) -> _Part:
    """The sort key of a part: numbers come before words."""
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
