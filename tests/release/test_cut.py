"""A release is a commit with its version and its part of the changelog, and a tag."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

from tools.deploy.manifests import first_line
from tools.release.built import ROOT
from tools.release.cut import RefusedError, cut

DAY = date(2026, 3, 4)


def git(root: Path, *words: str) -> str:
    words = ("git", *words)
    done = subprocess.run(words, cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for word in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{word}_NAME", "T")
        monkeypatch.setenv(f"GIT_{word}_EMAIL", "t@example.com")
    package = tmp_path / "src" / "penstock"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""P."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- new\n")
    for folder in (Path("deploy"), Path("tests", "fixtures", "helm")):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=first")
    return tmp_path


def test_it_commits_and_tags(root: Path) -> None:
    assert cut(root, "0.2.0", DAY) == "v0.2.0"
    assert git(root, "log", "-1", "--format=%s") == "Release 0.2.0"
    assert git(root, "describe") == "v0.2.0"
    assert git(root, "status", "--porcelain") == ""
    assert "trades@0" in git(root, "ls-files", "tests/fixtures/data-paths/0.2.0")
    assert '__version__ = "0.2.0"\n' in (root / "src" / "penstock" / "__init__.py").read_text()
    assert "## 0.2.0 (2026-03-04)\n\n- new\n" in (root / "CHANGELOG.md").read_text()


def test_the_chart_and_what_was_made_of_it_have_the_version(root: Path) -> None:
    cut(root, "9.8.7", DAY)
    chart = root / "deploy" / "helm" / "penstock"
    assert 'version: 9.8.7\nappVersion: "9.8.7"\n' in (chart / "Chart.yaml").read_text()
    for path in (root / "deploy" / "kubernetes").iterdir():
        text = path.read_text()
        assert text.startswith(first_line(chart))
        assert set(re.findall(r'image: "penstock:(.*)"', text)) == {"9.8.7"}
        assert set(re.findall(r'/version: "(.*)"', text)) == {"9.8.7"}


def test_a_second_one_needs_something_new(root: Path) -> None:
    cut(root, "0.2.0", DAY)
    with pytest.raises(RefusedError, match="nothing below Unreleased"):
        cut(root, "0.3.0", DAY)
    with pytest.raises(RefusedError, match=r"the tag v0\.2\.0 is there already"):
        cut(root, "0.2.0", DAY)
    assert git(root, "status", "--porcelain") == ""


def test_what_is_not_committed_is_not_released(root: Path) -> None:
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- other\n")
    with pytest.raises(RefusedError, match="git status"):
        cut(root, "0.2.0", DAY)
    assert git(root, "tag", "--list") == ""
