"""tests/README.md has a row for each folder of tests, and names what `make test` leaves out."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import IN_BOTH, NIGHTLY

TESTS = Path(__file__).parent
ROWS = {
    cells[0]: cells
    for line in (TESTS / "README.md").read_text(encoding="utf-8").splitlines()
    if (cells := [cell.strip() for cell in line.strip("|").split("|")])[0].startswith("`")
}


def test_each_folder_has_a_row() -> None:
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    assert {name.strip("`") for name in ROWS} - {"test_*.py"} >= folders


def test_folders_that_run_nightly_say_so() -> None:
    for name in NIGHTLY:
        assert ROWS[f"`{name}`"][3], name


def test_what_runs_in_both_is_there() -> None:
    for name in IN_BOTH:
        assert (TESTS / name).is_file(), name
        assert name.partition("/")[0] in NIGHTLY, name
