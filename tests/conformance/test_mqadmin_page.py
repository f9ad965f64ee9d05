from __future__ import annotations

from tools.pages.mqadmin_page import PAGE, split, table


def test_the_page_lists_every_sub_command() -> None:
    _, found, _ = split(PAGE.read_text(encoding="utf-8"))
    assert found == table(), "run `make pages`"
