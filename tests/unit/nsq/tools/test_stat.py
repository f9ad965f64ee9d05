from __future__ import annotations

import io

from msgspec import structs
from rich.console import Console

from penstock.cluster.stats import ChannelStats
from penstock.nsq.tools.stat import ColourTable, PlainTable, Row

BEFORE = ChannelStats(depth=3, message_count=13)
NOW = ChannelStats(depth=6, memory_depth=5, backend_depth=1, in_flight_count=2, message_count=20,
                   client_count=1)  # fmt: skip


def test_rates_are_truncated() -> None:
    row = Row.of(BEFORE, NOW, 2.0)
    assert (row.ingress, row.egress) == (3, 2)
    assert (row.total, row.mem, row.disk, row.inflt, row.messages) == (6, 5, 1, 2, 20)
    assert Row.of(NOW, BEFORE, 2.0).ingress == -3


def test_a_program_gets_gos_bytes() -> None:
    out = io.StringIO()
    table = PlainTable(out)
    table.header()
    table.row(Row.of(BEFORE, NOW, 2.0))
    assert out.getvalue() == (
        "------rate------+----------------depth----------------+"
        "--------------metadata---------------\n"
        "ingress  egress |   total     mem    disk inflt   def |"
        "     req     t-o         msgs clients\n"
        "      3       2 |       6       5       1     2     0 |"
        "       0       0           20       1\n"
    )


def lines_of(table: ColourTable, console: Console) -> list[str]:
    with console.capture() as captured:
        table.header()
        table.row(Row.of(BEFORE, NOW, 2.0))
    return captured.get().splitlines()


def test_a_person_gets_aligned_columns() -> None:
    for width in (120, 70):
        console = Console(width=width, color_system=None)
        rule, names, row = lines_of(ColourTable(console), console)
        assert [at for at, char in enumerate(names) if char == "│"] == [
            at for at, char in enumerate(row) if char == "│"
        ]
        assert len(rule) == len(names) == len(row) <= max(width, 80)


def test_big_numbers_widen_their_column() -> None:
    console = Console(width=120, color_system=None)
    table = ColourTable(console)
    with console.capture() as captured:
        table.row(Row.of(BEFORE, structs.replace(NOW, depth=10**12), 2.0))
    assert len({len(line) for line in captured.get().splitlines()}) == 1


def test_colours() -> None:
    console = Console(width=120, force_terminal=True, color_system="standard")
    assert "\x1b[32m      3\x1b[0m" in lines_of(ColourTable(console), console)[2]
