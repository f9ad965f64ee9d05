"""The columns of the view: what is in them, how wide they are, and which go first for room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from rich.text import Text

from penstock.cli.top.table import ALL_NODES, Row
from penstock.cluster.figures import CHANNEL
from penstock.cluster.groups import LOG

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
SPARKS: Final = 12
SPARK_TITLE: Final = "RATE IN"
_NAME_MIN: Final = 14
_GAP: Final = 2
_KINDS: Final = {CHANNEL: "", LOG: "log"}
_ARROWS: Final = {1: "▲", 0: " ", -1: "▼"}


class Column(NamedTuple):
    """``keep`` orders what stays in a narrow terminal: the largest goes first."""

    title: str
    width: int
    keep: int
    show: Callable[[Row], Text]
    left: bool = False


def number(value: int) -> str:
    """A count in six places: 999999, 12.3M, 4.5G."""
    if value < 1_000_000:
        return str(value)
    for unit, size in (("M", 10**6), ("G", 10**9), ("T", 10**12)):
        if value < 1000 * size:
            return f"{value / size:.1f}{unit}"
    return f"{value / 10**15:.0f}P"


def rate(value: float | None) -> str:
    """Messages a second; a dash before anything is known."""
    if value is None:
        return "-"
    return f"{value:.1f}" if 0 < value < 10 else number(round(value))


def nbytes(value: int) -> str:
    """Bytes in six places."""
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.0f} PiB"


def sparkline(rates: Sequence[float], width: int = SPARKS) -> str:
    """The last rates as blocks, the highest of them as a full one; nothing as a blank."""
    shown = list(rates)[-width:]
    top = max(shown, default=0.0)
    if not top:
        return " " * width
    last = len(_BLOCKS) - 1
    blocks = [_BLOCKS[round(each / top * last)] if each else " " for each in shown]
    return "".join(blocks).rjust(width)


def _lag(row: Row) -> Text:
    style = {1: "bold red", 0: "", -1: "green"}[row.trend]
    if row.idle and row.trend <= 0:
        style = "magenta"
    return Text(number(row.lag) + _ARROWS[row.trend], style=style)


def _count(field: str, style: str = "") -> Callable[[Row], Text]:
    def show(row: Row) -> Text:
        value = getattr(row, field)
        return Text(number(value), style=style if value else "bright_black")

    return show


def _clients(row: Row) -> Text:
    return Text(number(row.clients), style="magenta" if row.idle and not row.clients else "")


def _rate_in(row: Row) -> Text:
    return Text(rate(row.rate_in), style="cyan" if row.rate_in else "bright_black")


def _rate_out(row: Row) -> Text:
    return Text(rate(row.rate_out), style="cyan" if row.rate_out else "bright_black")


_SHARED: Final = (
    Column("IN/s", 7, 0, _rate_in),
    Column("OUT/s", 7, 0, _rate_out),
    Column("LAG", 8, 0, _lag),
    Column(SPARK_TITLE, SPARKS, 5, lambda row: Text(sparkline(row.rates), style="blue"), left=True),
    Column("DEPTH", 7, 4, _count("depth")),
    Column("IN FL.", 6, 1, _count("in_flight")),
    Column("DEF.", 6, 6, _count("deferred")),
    Column("REQ.", 6, 3, _count("requeued", "yellow")),
    Column("TIMEO.", 6, 3, _count("timed_out", "yellow")),
    Column("DEAD", 6, 7, _count("dead", "red")),
    Column("CLI.", 5, 1, _clients),
)
TOPIC_COLUMNS: Final = (
    *_SHARED,
    Column("CH.", 4, 6, lambda row: Text(str(row.readers))),
    Column("MESSAGES", 8, 8, lambda row: Text(number(row.messages))),
    Column("BYTES", 8, 9, lambda row: Text(nbytes(row.nbytes))),
)
READER_COLUMNS: Final = (
    Column("KIND", 8, 2, lambda row: Text(_KINDS.get(row.kind, row.kind)), left=True),
    *_SHARED,
    Column("MESSAGES", 8, 8, lambda row: Text(number(row.messages))),
)
NODE_COLUMN: Final = Column("NODE", 21, 0, lambda row: Text(row.node or "all"), left=True)


def chosen(columns: Sequence[Column], width: int | None, names: Sequence[str] = ()) -> list[Column]:
    """The columns that fit beside whole names, in their order; all with no ``width``.

    A name that not even the most wanted columns leave room for is cut, and costs no column.
    """
    kept = list(columns)
    if width is None:
        return kept
    most = width - _needed([column for column in columns if not column.keep])
    wanted = max((len(name) for name in names if len(name) <= most), default=0)
    while len(kept) > 1 and max(_NAME_MIN, wanted) + _needed(kept) > width:
        kept.remove(max(reversed(kept), key=lambda column: column.keep))
    return kept


def name_width(columns: Sequence[Column], width: int | None, names: Sequence[str]) -> int:
    """The width left for names: as much as the longest needs."""
    longest = max((len(name) for name in names), default=0)
    wanted = max(_NAME_MIN, longest)
    if width is None:
        return wanted
    return max(1, min(wanted, width - _needed(columns)))


def heading(title: str, columns: Sequence[Column], names: int) -> Text:
    """The line of titles."""
    line = Text(title[:names].ljust(names))
    for column in columns:
        line.append(" " * _GAP)
        line.append(_placed(Text(column.title), column))
    return line


def line(row: Row, columns: Sequence[Column], names: int) -> Text:
    """One row as a line."""
    name = Text(_shortened(row.name, names).ljust(names), style=_name_style(row))
    for column in columns:
        name.append(" " * _GAP, style="")
        name.append(_placed(column.show(row), column))
    return name


def with_node(columns: Sequence[Column], by_node: bool) -> list[Column]:
    """The columns, that of the node first where rows are of one."""
    return [NODE_COLUMN, *columns] if by_node else list(columns)


def _needed(columns: Sequence[Column]) -> int:
    """The width of these columns, beside names."""
    return sum(_GAP + column.width for column in columns)


def _placed(cell: Text, column: Column) -> Text:
    cell.truncate(column.width, overflow="ellipsis")
    missing = " " * (column.width - len(cell))
    blank = Text(missing)
    return Text.assemble(cell, blank) if column.left else Text.assemble(blank, cell)


def _shortened(name: str, width: int) -> str:
    """Names that begin alike often differ at their ends, so the middle goes."""
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return name[: width - 1 - end] + "…" + name[len(name) - end :]


def _name_style(row: Row) -> str:
    if row.paused:
        return "yellow"
    return "bold" if row.node == ALL_NODES else ""
