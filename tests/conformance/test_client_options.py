"""The pages of the clients have the options that there are, and their Python can be compiled."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.pages.client_options import PAGES, split, table

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_the_page_is_up_to_date(page: Path) -> None:
    """`make pages` writes the table again."""
    _, written, _ = split(page.read_text(encoding="utf-8"))
    assert written.strip() == table(PAGES[page]).strip()


@each_page
def test_every_option_has_a_row(page: Path) -> None:
    for name in PAGES[page]:
        assert f"| `{name}` |" in table(PAGES[page])


@each_page
def test_the_code_on_the_page_is_python(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
