"""Everything that comes with Penstock, or works on it, is under a licence that we accept."""

from __future__ import annotations

from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from tools.release import licences
from tools.release.licences import Rules
from tools.release.locked import USERS, WORK, closure, pinned

RULES = Rules(frozenset(("MIT", "BSD-3-Clause")), {}, {})


def package(folder: Path, name: str, *about: str) -> dict[str, Distribution]:
    where = folder / f"{name}-1.dist-info"
    where.mkdir()
    (where / "METADATA").write_text("\n".join([f"Name: {name}", "Version: 1", *about]))
    return {name: PathDistribution(where)}


def test_all_are_accepted() -> None:
    assert list(licences.faults(closure(*USERS, *WORK), licences.rules())) == []


def test_an_expression_is_taken_apart(tmp_path: Path) -> None:
    found = package(tmp_path, "a", "License-Expression: (MIT OR GPL-3.0-only) AND BSD-3-Clause")
    assert list(licences.faults(found, RULES)) == ["a 1: GPL-3.0-only is not accepted"]


def test_a_classifier_counts_where_there_is_no_expression(tmp_path: Path) -> None:
    found = package(tmp_path, "a", "License: see LICENSE",
                    "Classifier: License :: OSI Approved :: MIT License")  # fmt: skip
    assert list(licences.faults(found, RULES)) == []


def test_no_licence_is_not_accepted(tmp_path: Path) -> None:
    found = package(tmp_path, "a")
    assert list(licences.faults(found, RULES)) == ["a 1: no licence is not accepted"]
    by_hand = RULES._replace(read_by_hand={"a": "MIT"})
    assert list(licences.faults(found, by_hand)) == []


def test_an_entry_of_no_use_is_found(tmp_path: Path) -> None:
    found = package(tmp_path, "a", "License-Expression: MIT")
    by = RULES._replace(excepted={"a": "it was GPL once"})
    assert list(licences.faults(found, by)) == ["a: excepted without need, MIT is accepted"]
    ours = licences.rules()
    assert ours.read_by_hand.keys() | ours.excepted.keys() <= pinned().keys()
