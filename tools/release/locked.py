"""The packages that an install brings, in the versions of constraints.txt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .built import ROOT, project

USERS = ("spark", "acl", "arrow", "demo")
"""The extras of the wheel."""
WORK = ("dev", "test", "interop", "release")
"""The groups of what works on Penstock."""


def pinned() -> dict[str, str]:
    """The versions in constraints.txt, by name."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, _, version in _parts(lines)}


def closure(*named: str) -> dict[str, Distribution]:
    """What an install with these extras and groups brings besides Penstock, by name.

    The packages are those that are installed here.

    Raises PackageNotFoundError for what is not.
    """
    more = {**project()["optional-dependencies"], **project("dependency-groups")}
    waiting = [Requirement(each) for each in project()["dependencies"]]
    waiting += [Requirement(each) for name in named for each in more[name]]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if _applies(requirement) and (name, extra) not in seen:
                seen.add((name, extra))
                found[name] = distribution(name)
                waiting += _needs(found[name], extra)
    return dict(sorted(found.items()))


def _needs(package: Distribution, extra: str) -> Iterator[Requirement]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if _applies(requirement, extra):
            requirement.marker = None
            yield requirement


def _applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _parts(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    return (line.partition("==") for line in lines)
