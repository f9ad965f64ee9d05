"""docs/client.md has the options that there are, and its Python can be compiled."""

from __future__ import annotations

import ast
import re

from penstock.nsq.client.config import OPTIONS

from .client_options import PAGE, split, table


def test_the_page_is_up_to_date() -> None:
    """`make client-options` writes the table anew."""
    _, written, _ = split(PAGE.read_text(encoding="utf-8"))
    assert written.strip() == table().strip()


def test_every_option_has_a_row() -> None:
    for name in OPTIONS:
        assert f"| `{name}` |" in table()


def test_the_code_on_the_page_is_python() -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
