"""The list of components is valid, complete, and the same when it is made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from penstock import __version__
from tools.release import sbom
from tools.release.licences import rules
from tools.release.locked import USERS, closure, pinned

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sbom") / "penstock.cdx.json"
    sbom.write(made)  # fails where the list does not follow CycloneDX's schema
    return made


def test_it_names_penstock_and_each_package_with_version_and_licence(target: Path) -> None:
    found = json.loads(target.read_text())
    itself = found["metadata"]["component"]
    assert (itself["name"], itself["version"]) == ("penstock-mq", __version__)
    versions = {canonicalize_name(each["name"]): each["version"] for each in found["components"]}
    assert versions.keys() == closure(*USERS).keys()
    assert versions.items() <= pinned().items()
    assert all(each["purl"].startswith("pkg:pypi/") for each in found["components"])
    without = {each["name"] for each in found["components"] if not each.get("licenses")}
    assert without <= rules().read_by_hand.keys()


def test_it_says_what_needs_what(target: Path) -> None:
    found = json.loads(target.read_text())
    needs = {each["ref"]: each.get("dependsOn", []) for each in found["dependencies"]}
    names = {each["bom-ref"]: each["name"].lower() for each in found["components"]}
    (pyspark,) = (ref for ref, name in names.items() if name == "pyspark")
    assert "py4j" in {names[ref] for ref in needs[pyspark]}
    direct = {names[ref] for ref in needs["root-component"]}
    assert {"numpy", "rich", "pyspark"} <= direct
    assert "py4j" not in direct


def test_it_is_the_same_when_it_is_made_again(target: Path, tmp_path: Path) -> None:
    sbom.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == target.read_bytes()
