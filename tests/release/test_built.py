"""Wheel and sdist: what is in them, what they say of themselves, and that they build again."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import __version__
from tools.release import built
from tools.release.fresh import PYTHONS

pytestmark = pytest.mark.nightly


def test_the_wheel_has_the_packages_and_says_what_they_are(wheel: Path) -> None:
    assert built.faults(wheel) == []
    assert wheel.name == f"penstock_mq-{__version__}-py3-none-any.whl"


def test_it_has_pages_types_and_templates_but_no_tests(wheel: Path) -> None:
    files = built.files(wheel)
    for path in ("py.typed", "admin/web/index.html", "admin/web/js/main.js",
                 "admin/web/style/base.css", "spark/log4j2.properties",
                 "spark/pipelines/templates/archive.toml"):  # fmt: skip
        assert f"src/penstock/{path}" in files
    top = {path.split("/")[1] for path in files}
    assert top == {"penstock", "pyspark_nsq", "pyspark_rocketmq"}


def test_its_metadata_names_every_python_that_is_tried(wheel: Path) -> None:
    found = built.metadata(wheel)
    prefix = "Programming Language :: Python :: 3."
    named = [each for each in found.classifiers or () if each.startswith(prefix)]
    assert [f"python3.{each.removeprefix(prefix)}" for each in named] == list(PYTHONS)
    assert found.license_expression == "Apache-2.0"


def test_the_description_is_the_readme_without_links_into_the_repository(wheel: Path) -> None:
    said = built.metadata(wheel).description or ""
    assert "speaks **NSQ** and **RocketMQ**" in said
    assert "Penstock's client (also asyncio)" in said
    assert "<http://127.0.0.1:4171>" in said
    assert "![" not in said


def test_another_build_has_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Elsewhere, of files with other times, and of the sdist alone."""
    wheel, (sdist,) = built.wheel_in(folder), folder.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)
    (source,) = tmp_path.glob(built.FILES)
    for path in source.rglob("*.py"):
        path.touch()
    built.build(tmp_path / "again", source)
    assert built.digest(built.wheel_in(tmp_path / "again")) == built.digest(wheel)
    assert built.digest(tmp_path / "again" / sdist.name) == built.digest(sdist)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda names: names - {"penstock/py.typed"}, "not in the wheel: src/penstock/py.typed"),
        (lambda names: names | {"tests/x.py"}, "no part of the packages: src/tests/x.py"),
    ],
)
def test_a_wheel_with_other_files_is_found(
    wheel: Path, tmp_path: Path, change: Callable[[set[str]], set[str]], fault: str
) -> None:
    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(other, "w") as target:
        present = set(source.namelist())
        for name in sorted(change(present)):
            target.writestr(name, source.read(name) if name in present else b"")
    assert built.faults(other) == [fault]


def test_metadata_that_say_little_are_found(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("/METADATA"):
                lines = data.decode().splitlines(keepends=True)
                kept = [each for each in lines if not each.startswith("Project-URL:")]
                data = "".join(kept).replace("RocketMQ", "that", 1).encode()
            target.writestr(name, data)
    found = built.faults(other)
    assert "no links in its metadata" in found
    assert "its summary does not name RocketMQ" in found


def test_the_sdist_builds_without_the_repository(folder: Path) -> None:
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "docs", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"} <= top
    assert not top & {"tests", "tools", "bench", ".ci"}
