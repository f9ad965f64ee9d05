"""The pages of the documentation: their headings with anchors, and their blocks of code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} (.+)$")


def lines_of_text(page: Path) -> Iterator[str]:
    """The lines of a page that are not in a block of code."""
    in_code = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield line


@cache
def headings(page: Path) -> list[str]:
    """The texts of a page's headings, without their marks."""
    return [found[1] for line in lines_of_text(page) if (found := _HEADING.match(line))]


def anchor(heading: str) -> str:
    """The anchor that the site's generator gives a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.lower())
    return re.sub(r"[-\s]+", "-", words).strip("-")


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of a page, in their order."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, dedent(text)) for _, language, text in found]


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page that are in this language, in their order."""
    return [text for each, text in all_blocks(page) if each == language]


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the page's blocks for a shell; a continued line is one."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def replaced(text: str, by: Mapping[str, str]) -> str:
    """The text with each of these words replaced, where several begin alike by the first.

    A word that has been put in is not replaced in its turn, and an address is not taken for the
    beginning of one with a longer port: daemons of tests are given ports such as 41503.
    """
    words = "|".join(map(re.escape, by))
    return re.sub(rf"(?:{words})(?!(?<=\d)\d)", lambda found: by[found[0]], text)


def completed(text: str) -> str:
    """A block of a pipeline's file with what it leaves out."""
    source = (
        ""
        if "[source]" in text
        else '[source]\nformat = "nsq"\ntopic = "t"\nnsqd_http_address = "127.0.0.1:4151"\n'
    )
    sink = "" if "[sink]" in text else '[sink]\nformat = "noop"\n'
    return source + text.replace("${NSQ_SECRET}", "secret") + sink
