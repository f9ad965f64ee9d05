"""Every duty of a client is shown by tests, and docs/spec/client-guide.md says so."""

from __future__ import annotations

import ast

import pytest

from tools.pages.client_duties import DUTIES, PAGE, Duty, page
from tools.pages.references import TESTS, missing


def are_collected(test: str) -> bool:
    """Whether pytest finds it by itself: a test at the top of a file of tests."""
    file, _, function = test.partition("::")
    function = function.partition("[")[0]
    path = TESTS / file
    top = ast.parse(path.read_text(encoding="utf-8")).body
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    names = {node.name for node in top if isinstance(node, kinds)}
    return path.name.startswith("test_") and function.startswith("test_") and function in names


@pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: duty.asks)
def test_a_duty_is_shown(duty: Duty) -> None:
    assert duty.tests
    assert missing(duty.tests) == []
    assert [test for test in duty.tests if not are_collected(test)] == []


def test_no_duty_stands_twice() -> None:
    assert len({duty.asks for duty in DUTIES}) == len(DUTIES)


def test_what_is_not_collected_is_found() -> None:
    assert are_collected("conformance/test_client_duties.py::test_no_duty_stands_twice")
    assert not are_collected("conformance/test_client_duties.py::are_collected")


def test_the_page_is_up_to_date() -> None:
    """`make pages` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
