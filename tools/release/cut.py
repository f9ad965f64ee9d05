"""A release of the commit that is checked out: ``python -m tools.release.cut VERSION``.

Writes the version into the package, the changelog and the chart, and a data path for the tests of
later versions; commits that, and tags the commit. Nothing is pushed. ``make release`` builds the
files of the release then.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Final

from tools.deploy.manifests import set_version

from . import kept
from .built import ROOT
from .changelog import released

_VERSION: Final = re.compile(r'^__version__ = "[^"]*"$', re.MULTILINE)


class RefusedError(Exception):
    """There is no release of this; the text says why."""


def cut(root: Path, version: str, day: date) -> str:
    """Commit and tag the release; its tag. Raises RefusedError, and then nothing has changed."""
    tag = f"v{version}"
    if _git(root, "status", "--porcelain"):
        raise RefusedError("commit or put away what is changed first: git status shows it")
    if _git(root, "tag", "--list", tag):
        raise RefusedError(f"the tag {tag} is there already")
    changelog, package = root / "CHANGELOG.md", root / "src" / "penstock" / "__init__.py"
    try:
        text = released(changelog.read_text(encoding="utf-8"), version, day)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    changelog.write_text(text, encoding="utf-8")
    source = package.read_text(encoding="utf-8")
    package.write_text(_VERSION.sub(f'__version__ = "{version}"', source), encoding="utf-8")
    set_version(root, version)
    data_path = kept.folder(root, version)
    if not data_path.exists():
        kept.write(data_path)
    _git(root, "add", str(data_path))
    _git(root, "commit", "--quiet", "--all", "--message", f"Release {version}")
    _git(root, "tag", "--annotate", tag, "--message", f"Penstock {version}")
    return tag


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def main(arguments: list[str]) -> int:
    """Cut the release; 1 where there is none."""
    try:
        print(cut(ROOT, arguments[0], date.today()))
    except RefusedError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
