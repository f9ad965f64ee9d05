"""The view as lines of text for a terminal of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from penstock.cli.top import columns as grid
from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.table import Row, members, total
from penstock.cli.top.view import View
from penstock.cluster.figures import NodeFigures
from penstock.cluster.stats import ClientStats
from penstock.core.counted import counted
from penstock.core.logs import one_line

_GREY: Final = "bright_black"
_KEYS: Final = "q quit  ↑↓ choose  ⏎ open  ← back  / filter  s sort  r reverse  n nodes  ? help"
_HELP: Final = (
    ("q, Ctrl-C", "end"),
    ("↑ ↓ k j, pages, Home, End", "choose a row"),
    ("Enter, →", "open a topic: its channels, groups and clients"),
    ("Esc, ←", "back; on the first page: filter off"),
    ("/", "only topics whose names contain what you type"),
    ("s, r", "next order; turn the order round"),
    ("n", "a row for each node, or all nodes added up"),
    ("space", "hold the figures still"),
)
_MEANINGS: Final = (
    ("bold red", "123▲", "the lag has grown at the last looks, never shrunk"),
    ("green", "123▼", "the lag shrinks"),
    ("magenta", "123", "messages wait and nobody consumes them"),
    ("yellow", "name", "paused, or a channel of it is"),
    ("red", "●", "a node that does not answer or is not healthy"),
)
_COLUMNS: Final = (
    ("IN/s, OUT/s", "messages published and finished a second"),
    ("LAG", "not finished by the reader furthest behind"),
    ("DEPTH", "topic: not yet with channels; channel: waiting"),
    ("REQ., TIMEO., DEAD", "requeued, timed out, dead letters since the start"),
)
_HELP_KEYS: Final = 28
_TABLE_TITLE: Final = "TOPIC / CHANNEL"
_CLIENTS_MIN: Final = 4
_CLIENT_TITLES: Final = ("CLIENT", "CHANNEL", "ADDRESS", "RDY", "IN FL.", "FIN", "REQ.", "SOFTWARE")
_CLIENT_WIDTHS: Final = (20, 16, 21, 6, 6, 6, 6, 40)
_CLIENT_FIGURES: Final = range(3, 7)


def screen(view: View, width: int, height: int) -> list[Text]:
    """The whole screen: ``height`` lines of at most ``width`` characters."""
    if view.help:
        lines = _help()
    else:
        head = _head(view, width)
        rows = view.rows()
        room = max(1, height - len(head) - 2)
        body = _page(view, rows, width, room)
        lines = head + body + [Text()] * (room - len(body)) + _foot(view, rows, width)
    for line in lines:
        line.truncate(width)
    return (lines + [Text()] * height)[:height]


def table(view: View) -> list[Text]:
    """The page of topics, with every reader below its topic, as lines without a screen."""
    lines = [_node_line(node) for node in view.cluster.all()]
    lines += [_trouble(text) for text in view.cluster.troubles]
    rows = view.rows()
    if not rows:
        return [*lines, Text(), Text("no topics")]
    below = {row.name: _readers(view, row.name) for row in rows}
    names = [*below, *("  " + row.name for some in below.values() for row in some)]
    shown = [each for each in grid.READER_COLUMNS if each.title != grid.SPARK_TITLE]
    width = grid.name_width(shown, None, [_TABLE_TITLE, *names])
    lines += [Text(), grid.heading(_TABLE_TITLE, shown, width)]
    for row in rows:
        lines.append(grid.line(row, shown, width))
        lines += [_indented(reader, shown, width) for reader in below[row.name]]
    lines.append(grid.line(total(rows), shown, width))
    for line in lines:
        line.rstrip()
    return lines


def _readers(view: View, topic: str) -> list[Row]:
    page = View(view.cluster)
    page.topic = topic
    return page.rows()


def _indented(row: Row, columns: Sequence[grid.Column], width: int) -> Text:
    line = grid.line(row, columns, width - 2)
    return Text("  ") + line


# --- parts of the screen ---


def _head(view: View, width: int) -> list[Text]:
    title = Text("penstock top", style="bold")
    if view.topic:
        title.append(f"  topic {view.topic}", style="bold cyan")
    title.append(f"  by {view.sort}{', reversed' if view.reversed else ''}", style=_GREY)
    if view.editing or view.filter:
        title.append(f"  /{view.filter}{'▏' if view.editing else ''}", style="bold yellow")
    if view.cluster.held:
        title.append("  held still (space)", style="yellow")
    lines = [title, _nodes(view.cluster, width)]
    lines += [_trouble(text) for text in view.cluster.troubles]
    lines.append(Text())
    return lines


def _nodes(cluster: Cluster, width: int) -> Text:
    """All nodes in a line, those in trouble first; the good ones as a number if need be."""
    if not cluster.nodes:
        return Text("no nodes yet", style=_GREY)
    good = [node for node in cluster.all() if _is_good(node)]
    line = Text("   ").join(_node_line(node) for node in cluster.all() if not _is_good(node))
    if not good:
        return line
    line.append("   " if line.plain else "")
    whole = line + Text("   ").join(_node_line(node) for node in good)
    if len(whole) <= width:
        return whole
    return line.append("● ", style="green").append(counted(len(good), "node"), style="")


def _is_good(node: NodeFigures) -> bool:
    return not node.error and node.health == "OK"


def _node_line(node: NodeFigures) -> Text:
    good = _is_good(node)
    line = Text("● ", style="green" if good else "red").append(node.address, style="")
    if node.error:
        line.append(f" {one_line(node.error)}", style="red")
    elif not good:
        line.append(f" {one_line(node.health)}", style="red")
    elif node.producers:
        line.append(f" {node.producers} producer{'s'[: node.producers > 1]}", style=_GREY)
    return line


def _trouble(text: str) -> Text:
    return Text(text, style="red")


def _page(view: View, rows: list[Row], width: int, room: int) -> list[Text]:
    columns = grid.READER_COLUMNS if view.topic else grid.TOPIC_COLUMNS
    names = [row.name for row in rows]
    shown = grid.chosen(grid.with_node(columns, view.by_node), width, names)
    if not view.topic:
        return _rows(view, rows, shown, width, room)
    clients = members(view.cluster.all(), view.topic, view.chosen(rows))
    below = min(len(clients), max(_CLIENTS_MIN, room - len(rows) - 4))
    lines = _rows(view, rows, shown, width, max(2, room - below - 2))
    if rows:
        lines += _client_lines(clients, max(0, room - len(lines)))
    return lines


def _rows(
    view: View, rows: list[Row], columns: list[grid.Column], width: int, room: int
) -> list[Text]:
    """The titles and as many rows as have room, the chosen one among them."""
    names = grid.name_width(columns, width, [row.name for row in rows])
    heading = grid.heading("CHANNEL" if view.topic else "TOPIC", columns, names)
    heading.stylize("bold underline")
    lines = [heading]
    cursor, seats = view.cursor(rows), max(1, room - 1)
    first = max(0, min(cursor - seats // 2, len(rows) - seats))
    for place, row in enumerate(rows[first : first + seats], first):
        line = grid.line(row, columns, names)
        if place == cursor:
            line.stylize("reverse")
        lines.append(line)
    if not rows:
        lines.append(Text(_nothing(view), style=_GREY))
    return lines


def _nothing(view: View) -> str:
    if view.topic:
        return "no channel and no group reads this topic"
    return f"no topic's name contains {view.filter!r}" if view.filter else "no topics"


def _client_lines(clients: list[tuple[str, str, ClientStats]], room: int) -> list[Text]:
    """The titles and as many clients as have room, in columns as wide as what is in them."""
    if room < 3:
        return []
    rows = [_CLIENT_TITLES, *(_client(reader, client) for _, reader, client in clients[: room - 2])]
    columns = zip(_CLIENT_WIDTHS, zip(*rows, strict=True), strict=True)
    widths = [min(most, max(map(len, cells))) for most, cells in columns]
    title, *lines = (Text(_client_line(row, widths)) for row in rows)
    title.stylize("bold underline")
    if not clients:
        lines.append(Text("nobody is connected", style=_GREY))
    return [Text(), title, *lines]


def _client(reader: str, client: ClientStats) -> tuple[str, ...]:
    figures = map(
        grid.number,
        (client.ready_count, client.in_flight_count, client.finish_count, client.requeue_count),
    )
    own = map(one_line, (client.client_id, reader, client.remote_address))  # as strangers wrote it
    return (*own, *figures, one_line(client.software))


def _client_line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell[:width].rjust(width) if place in _CLIENT_FIGURES else cell[:width].ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _foot(view: View, rows: list[Row], width: int) -> list[Text]:
    added = view.total(rows)
    many = "channels and groups" if view.topic else "topics" if len(rows) != 1 else "topic"
    line = Text(f"{len(rows)} {many}", style="bold")
    for text, style in (
        (f"  in {grid.rate(added.rate_in)}/s", "cyan"),
        (f"  out {grid.rate(added.rate_out)}/s", "cyan"),
        (f"  lag {grid.number(added.lag)}", "bold red" if added.trend > 0 else ""),
        (f"  in flight {grid.number(added.in_flight)}", ""),
        (f"  clients {grid.number(added.clients)}", ""),
        (f"  {grid.sparkline(added.rates, 20).lstrip()}", "blue"),
    ):
        if len(line) + len(text) > width:
            break
        line.append(text, style=style)
    return [line, Text(_KEYS if width >= len(_KEYS) else "q quit  ? help", style=_GREY)]


def _help() -> list[Text]:
    lines = [Text("penstock top", style="bold"), Text()]
    lines += [Text(f"  {keys:<{_HELP_KEYS}}{what}") for keys, what in _HELP]
    lines.append(Text())
    for style, sample, what in _MEANINGS:
        lines.append(
            Text("  ").append(sample.ljust(_HELP_KEYS), style=style).append(what, style="")
        )
    lines.append(Text())
    lines += [Text(f"  {title:<{_HELP_KEYS}}{what}") for title, what in _COLUMNS]
    return [*lines, Text(), Text("  any key goes back", style=_GREY)]
