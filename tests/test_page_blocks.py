"""Each block of code of each page is run by a test, or has a reason why not (page_blocks.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import test_followed_pages, test_tutorials
from tests.page_blocks import ROWS, RUN, Block, held_by, page_blocks
from tools.pages.documentation import PAGES, ROOT, all_blocks


def test_each_block_is_run_or_has_a_row() -> None:
    left = [str(block) for block in page_blocks() if block.row() is None]
    unknown = [
        str(each) for each in page_blocks() if each.row() is None and each.language not in RUN
    ]
    assert left
    assert unknown == [], "give it a test, and a row in tests/page_blocks.py that names the test"
    assert Block("new.md", "toml", "a = 1\n").row() is None


def test_each_row_is_about_a_block_and_names_what_there_is() -> None:
    used = {block.row() for block in page_blocks()}
    assert [row for number, row in enumerate(ROWS) if number not in used] == []
    for _, _, where in ROWS:
        assert [
            path for path in re.findall(r"tests/[\w/.]+\w", where) if not (ROOT / path).exists()
        ] == []


def test_pages_that_are_followed_are_those_that_rows_say() -> None:
    def said(test: str) -> set[str]:
        return {block.page.removesuffix(".md") for block in held_by(f"tests/{test}.py")}

    assert said("test_tutorials") == {*test_tutorials.FOLLOWED}
    others = {*test_followed_pages.FOLLOWED, "from-pynsq", "client", "rocketmq-client"}
    assert said("test_followed_pages") == others


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_block_says_its_language(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [begin for begin in fences[::2] if not re.fullmatch(r"\w+", begin)] == []
    assert len(fences) == 2 * len(all_blocks(page))
