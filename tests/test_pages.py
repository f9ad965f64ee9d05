"""Links between the pages of the documentation lead to pages and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import DOCS, PAGES, ROOT, anchor, headings, lines_of_text

_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^]]+\]: (\S+)$", re.MULTILINE)
_NAMED = re.compile(r"\]\[([^]]+)\]")
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md"))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def broken_links(page: Path) -> list[str]:
    """The links of a page to files or headings that do not exist."""
    broken = []
    text = _CODE.sub("", "\n".join(lines_of_text(page)))
    for link in filter(None, (inline or named for inline, named in _LINK.findall(text))):
        path, _, place = link.partition("#")
        if "://" in link:
            continue
        target = page if not path else (page.parent / path).resolve()
        if not target.exists() or (place and place not in map(anchor, headings(target))):
            broken.append(link)
    return broken


def test_the_site_gives_the_architecture_the_targets_of_its_links() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    used = set(_NAMED.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    assert used
    assert used == set(re.findall(r"^\[([^]]+)\]: ", page, re.MULTILINE))


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `page`\n[1](#a-page) [2](#b) [3](gone.md) `[4](gone.md)` [6][6]\n\n[6]: lost.md\n"
        "```\n[5](#c)\n"
    )
    assert broken_links(page) == ["#b", "gone.md", "lost.md"]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)
