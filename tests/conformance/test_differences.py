"""Each deliberate difference is shown by something, and told in the documentation."""

from __future__ import annotations

import pytest

from tools.pages.differences import DIFFERENCES, PAGE, Difference, section, split
from tools.pages.references import missing


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.text[:40])
def test_a_difference_is_shown_by_cases_or_tests(difference: Difference) -> None:
    shown_by = [f"{file}:{name}" for file, name in difference.cases]
    shown_by += difference.tests
    assert shown_by
    assert missing(shown_by) == []


def test_a_case_has_one_reason() -> None:
    cases = [case for difference in DIFFERENCES for case in difference.cases]
    assert len(cases) == len(set(cases))


def test_the_documentation_lists_them_all() -> None:
    """`make pages` writes the section anew; texts are changed in differences.py."""
    _, written, _ = split(PAGE.read_text(encoding="utf-8"))
    assert written.rstrip("\n") == section().rstrip("\n")


def test_a_page_is_split_at_the_section() -> None:
    heading = section().splitlines()[0]
    page = f"# Top\n\n{heading}\n\n- one\n\n## Next\n"
    assert split(page) == ("# Top\n\n", f"{heading}\n\n- one\n\n", "## Next\n")
    assert split(f"{heading}\n- one\n") == ("", f"{heading}\n- one\n", "")
