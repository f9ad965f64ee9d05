"""The pages of the documentation: their links, flags and imports lead to what exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path

import pytest

from penstock.cli.flags.programs import programs
from tools.pages.documentation import (
    DOCS,
    PAGES,
    ROOT,
    anchor,
    blocks,
    commands,
    headings,
    lines_of_text,
    replaced,
)

_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^]]+\]: (\S+)$", re.MULTILINE)
PAGES_MAX = 40
WORDS_MAX = 60_000
MANUAL = [page for page in PAGES if page.parent != DOCS / "spec"]
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


def test_every_page_is_in_the_navigation_but_the_specifications() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (\S+\.md)$", navigation, re.MULTILINE)
    manual = [page.relative_to(DOCS).as_posix() for page in MANUAL]
    assert sorted(listed) == sorted(manual)
    assert re.search(r"^not_in_nav: \|\n  spec/$", navigation, re.MULTILINE)


def test_the_manual_is_one_that_somebody_reads() -> None:
    """A new page takes the place of another; words are those with a letter or a figure."""
    words = sum(len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8"))) for page in MANUAL)
    assert len(MANUAL) <= PAGES_MAX
    assert words <= WORDS_MAX


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_flags_in_commands_exist(page: Path) -> None:
    known = {program: {flag.name for flag in flags} for program, flags in programs().items()}
    for words in commands(page):
        for program, flags in given_flags(words, known):
            assert flags <= known[program], words


def given_flags(words: list[str], programs: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    """The flags of each of these programs that a command of a shell, with pipes, names."""
    for piped, part in groupby(words, lambda word: word == "|"):
        first, *rest = part
        if not piped and first in programs:
            yield first, {word.partition("=")[0] for word in rest if word.startswith("--")}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_programs_are_python_and_import_what_exists(page: Path) -> None:
    for text in blocks(page, "python"):
        tree = compile(text, name(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock"):
                module = import_module(str(node.module))
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def test_an_address_of_a_daemon_is_not_replaced_in_its_turn() -> None:
    """A daemon's port may begin with, or be, one that the pages name."""
    own = {"a:4151/ready": "a:41513/ready", "a:4150": "a:4151", "a:4151": "a:41500"}
    assert replaced("curl a:4151/ready a:4150 a:4151/ping", own) == (
        "curl a:41513/ready a:4151 a:41500/ping"
    )
    assert replaced("a:41503", own) == "a:41503"


def test_the_site_asks_for_nothing_from_elsewhere() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.search(r"^  font: false$", settings, re.MULTILINE)
    files = [*(DOCS / "assets").glob("*.css"), *(DOCS / "assets").glob("*.js")]
    assert files
    for file in files:
        assert not re.search(r"https?:|//[a-z]+\.|@import", file.read_text(encoding="utf-8"))
