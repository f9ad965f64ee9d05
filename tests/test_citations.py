"""Citations of the specification, such as `NSQ spec 1.3`, lead to sections that exist."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.pages.documentation import DOCS, ROOT, lines_of_text

PAGES = {"NSQ": DOCS / "spec" / "nsq.md", "RocketMQ": DOCS / "spec" / "rocketmq.md"}
FOLDERS = ("src", "tests", "tools", "bench", "examples")
_NUMBER = r"\d+(?:\.\d+)?"
_CITATION = re.compile(rf"\b(NSQ|RocketMQ) spec ({_NUMBER}(?:(?:,| and| to) {_NUMBER}\b)*)")
_WITHOUT_DIALECT = re.compile(rf"(?<!NSQ )(?<!RocketMQ )\b(?:spec|reference) {_NUMBER}\b")
_HEADING = re.compile(rf"^#{{2,3}} ({_NUMBER})\.? ")


class Citation(NamedTuple):
    """One section that a text refers to."""

    dialect: str
    section: str


def citations(text: str) -> Iterator[Citation]:
    """Every section that a text cites; of `8.5 to 8.7` the two that it names."""
    for dialect, sections in _CITATION.findall(text):
        for section in re.findall(_NUMBER, sections):
            yield Citation(dialect, section)


def sections(page: Path) -> set[str]:
    """The numbers of a page's chapters and sections."""
    return {found[1] for line in lines_of_text(page) if (found := _HEADING.match(line))}


@functools.cache
def sources() -> dict[str, str]:
    """The text of each Python file that may cite, by its path; line ends are blanks."""
    files = (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))
    return {
        file.relative_to(ROOT).as_posix(): " ".join(file.read_text(encoding="utf-8").split())
        for file in files
    }


@pytest.mark.parametrize("dialect", PAGES)
def test_every_citation_resolves(dialect: str) -> None:
    known = sections(PAGES[dialect])
    cited = [(path, each.section) for path, text in sources().items()
             for each in citations(text) if each.dialect == dialect]  # fmt: skip
    assert cited
    assert [each for each in cited if each[1] not in known] == []


def test_every_citation_names_its_dialect() -> None:
    own = Path(__file__).relative_to(ROOT).as_posix()
    found = {path: _WITHOUT_DIALECT.findall(text) for path, text in sources().items()}
    assert {path: texts for path, texts in found.items() if texts and path != own} == {}


def test_what_counts_as_a_citation() -> None:
    text = "(NSQ spec 1.4 and 1.5), RocketMQ spec 2.2, 10, but NSQ spec 1.3, rows 7 to 12, spec 9"
    assert list(citations(text)) == [
        Citation("NSQ", "1.4"),
        Citation("NSQ", "1.5"),
        Citation("RocketMQ", "2.2"),
        Citation("RocketMQ", "10"),
        Citation("NSQ", "1.3"),
    ]
    assert _WITHOUT_DIALECT.findall(text) == ["spec 9"]


def test_sections_are_numbered_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n## 1. Chapter\n### 1.10 Section\n#### 36 REQUEST\n## More\n")
    assert sections(page) == {"1", "1.10"}
