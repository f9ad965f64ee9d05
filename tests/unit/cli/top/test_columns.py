"""Figures in little room."""

from __future__ import annotations

import pytest

from penstock.cli.top import columns as grid
from penstock.cli.top.table import Row


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (999_999, "999999"), (12_345_678, "12.3M"), (4_500_000_000, "4.5G"),
     (7 * 10**12, "7.0T"), (3 * 10**16, "30P")],
)  # fmt: skip
def test_numbers(value: int, shown: str) -> None:
    assert grid.number(value) == shown
    assert len(shown) <= 6


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.0, "0"), (0.25, "0.2"), (9.96, "10.0"), (1234.5, "1234")]
)
def test_rates(value: float | None, shown: str) -> None:
    assert grid.rate(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (300 << 20, "300 MiB"),
        (2 << 60, "2048 PiB"),
    ],
)
def test_bytes(value: int, shown: str) -> None:
    assert grid.nbytes(value) == shown


def test_sparklines() -> None:
    assert grid.sparkline([0, 1, 4, 8], 6) == "   ▂▅█"
    assert grid.sparkline([], 4) == grid.sparkline([0.0] * 9, 4) == "    "
    assert len(grid.sparkline([float(n) for n in range(100)])) == grid.SPARKS


def test_columns_go_from_the_least_wanted_on() -> None:
    wide = grid.chosen(grid.TOPIC_COLUMNS, None)
    assert wide == list(grid.TOPIC_COLUMNS)
    titles = [column.title for column in grid.chosen(grid.TOPIC_COLUMNS, 60)]
    assert titles == ["IN/s", "OUT/s", "LAG", "IN FL.", "CLI."]
    assert len(grid.chosen(grid.TOPIC_COLUMNS, 1)) == 1


@pytest.mark.parametrize("length", [14, 20, 30, 37, 52])
def test_names_are_whole_in_80_columns_before_wanted_columns_are(length: int) -> None:
    names = ["n" * length, "short"]
    columns = grid.chosen(grid.TOPIC_COLUMNS, 80, names)
    assert grid.name_width(columns, 80, names) == length
    assert {"IN/s", "OUT/s", "LAG"} <= {column.title for column in columns}


def test_a_name_that_fits_nowhere_costs_no_column() -> None:
    columns = grid.chosen(grid.TOPIC_COLUMNS, 80, ["n" * 200, "short"])
    assert columns == grid.chosen(grid.TOPIC_COLUMNS, 80)
    assert grid.name_width(columns, 80, ["n" * 200]) >= 14


@pytest.mark.parametrize("width", range(30, 160, 7))
def test_lines_are_as_wide_as_the_terminal_at_most(width: int) -> None:
    columns = grid.chosen(grid.TOPIC_COLUMNS, width)
    names = grid.name_width(columns, width, ["a-topic-with-a-long-name" * 3])
    line = grid.line(Row("a-topic-with-a-long-name" * 3, rate_in=1e15), columns, names)
    assert len(line) <= width
    assert "…" in line.plain
    assert len(grid.heading("TOPIC", columns, names)) == len(line)


def test_long_names_keep_both_ends() -> None:
    shown = [grid.line(Row(f"a-long-name-of-a-topic.{end}"), [], 11).plain for end in ("in", "out")]
    assert shown == ["a-lon…ic.in", "a-lon…c.out"]


def test_colours_mean_something() -> None:
    def style(row: Row, title: str) -> str:
        (column,) = [each for each in grid.TOPIC_COLUMNS if each.title == title]
        return str(column.show(row).style)

    assert style(Row("t", lag=5, trend=1), "LAG") == "bold red"
    assert style(Row("t", lag=5, trend=-1), "LAG") == "green"
    assert style(Row("t", lag=5, idle=True), "LAG") == "magenta"
    assert style(Row("t", dead=1), "DEAD") == "red"
    columns = grid.chosen(grid.TOPIC_COLUMNS, 80)
    assert any("yellow" in str(span.style) for span in
               grid.line(Row("t", paused=True), columns, 9).spans) or str(
        grid.line(Row("t", paused=True), columns, 9).style) == "yellow"  # fmt: skip
