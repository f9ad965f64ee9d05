"""What the screens of ``penstock top`` look like: figures, columns, rows, and whole screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rich.text import Text

from penstock.cli.top import columns as grid
from penstock.cli.top import draw
from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.table import Row, members, reader_rows, topic_rows, total
from penstock.cli.top.view import View
from tests.unit.cluster.samples import at, busy_cluster, channel, client, topic


@pytest.mark.parametrize(
    ("show", "shown"),
    [
        (grid.number, {0: "0", 999_999: "999999", 12_345_678: "12.3M", 4_500_000_000: "4.5G",
                       7 * 10**12: "7.0T", 3 * 10**16: "30P"}),
        (grid.rate, {None: "-", 0.0: "0", 0.25: "0.2", 9.96: "10.0", 1234.5: "1234"}),
        (grid.nbytes, {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 300 << 20: "300 MiB",
                       2 << 60: "2048 PiB"}),
    ],
)  # fmt: skip
def test_figures(show: Callable[[Any], str], shown: dict[Any, str]) -> None:
    assert {value: show(value) for value in shown} == shown


def test_sparklines() -> None:
    assert grid.sparkline([0, 1, 4, 8], 6) == "   ▂▅█"
    assert grid.sparkline([], 4) == grid.sparkline([0.0] * 9, 4) == "    "
    assert len(grid.sparkline([float(n) for n in range(100)])) == grid.SPARKS


def test_columns_go_from_the_least_wanted_on() -> None:
    assert grid.chosen(grid.TOPIC_COLUMNS, None) == list(grid.TOPIC_COLUMNS)
    titles = [column.title for column in grid.chosen(grid.TOPIC_COLUMNS, 60)]
    assert titles == ["IN/s", "OUT/s", "LAG", "IN FL.", "CLI."]
    assert len(grid.chosen(grid.TOPIC_COLUMNS, 1)) == 1
    # A name that fits nowhere costs no column.
    columns = grid.chosen(grid.TOPIC_COLUMNS, 80, ["n" * 200, "short"])
    assert columns == grid.chosen(grid.TOPIC_COLUMNS, 80)
    assert grid.name_width(columns, 80, ["n" * 200]) >= 14


@pytest.mark.parametrize("length", [14, 20, 30, 37, 52])
def test_names_are_whole_in_80_columns_before_wanted_columns_are(length: int) -> None:
    names = ["n" * length, "short"]
    columns = grid.chosen(grid.TOPIC_COLUMNS, 80, names)
    assert grid.name_width(columns, 80, names) == length
    assert {"IN/s", "OUT/s", "LAG"} <= {column.title for column in columns}


def test_lines_are_as_wide_as_the_terminal_at_most_and_names_keep_both_ends() -> None:
    for width in range(30, 160, 7):
        columns = grid.chosen(grid.TOPIC_COLUMNS, width)
        names = grid.name_width(columns, width, ["a-topic-with-a-long-name" * 3])
        line = grid.line(Row("a-topic-with-a-long-name" * 3, rate_in=1e15), columns, names)
        assert len(line) <= width
        assert "…" in line.plain
        assert len(grid.heading("TOPIC", columns, names)) == len(line)
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
    paused = grid.line(Row("t", paused=True), grid.chosen(grid.TOPIC_COLUMNS, 80), 9)
    assert "yellow" in (paused.style, *(str(span.style) for span in paused.spans))


def test_topics_of_all_nodes_together() -> None:
    cluster = busy_cluster()
    rows = {row.name: row for row in topic_rows(cluster.all(), cluster.history, by_node=False)}
    orders = rows["orders"]
    assert (orders.rate_in, orders.messages, orders.clients) == (1010.0, 4040, 2)
    assert (orders.lag, orders.trend) == (2040, 1)
    assert orders.requeued == 4
    assert orders.paused
    assert orders.rates == (1010.0,) * 4
    assert rows["clicks"].idle


def test_what_goes_out_of_a_topic_goes_out_of_its_readers() -> None:
    """One that is made again, comes or goes makes no peak, and hides none of the others."""
    cluster = Cluster()
    first, second = channel("a", message_count=100), channel("b", message_count=70)
    cluster.put(at("n:1", 0, topic("t", first, second, message_count=100)))
    assert cluster_row(cluster).rate_out is None
    first, second = channel("a", message_count=130), channel("b", message_count=5)
    late = channel("c", message_count=900)
    cluster.put(at("n:1", 1, topic("t", first, second, late, message_count=130)))
    assert (cluster_row(cluster).rate_in, cluster_row(cluster).rate_out) == (30.0, 30.0)
    cluster.put(at("n:1", 2, topic("t", message_count=130)))
    assert cluster_row(cluster).rate_out == 0.0


def cluster_row(cluster: Cluster) -> Row:
    (row,) = topic_rows(cluster.all(), cluster.history, by_node=False)
    return row


def test_topics_of_each_node() -> None:
    cluster = busy_cluster()
    rows = topic_rows(cluster.all(), cluster.history, by_node=True)
    assert [f"{row.name} {row.node}" for row in rows] == [
        "orders 10.0.0.1:4151", "clicks 10.0.0.1:4151", "orders 10.0.0.2:4151",
    ]  # fmt: skip


def test_readers_of_all_kinds() -> None:
    cluster = busy_cluster()
    rows = reader_rows(cluster.all(), "orders", cluster.history, by_node=False)
    found = {(row.kind, row.name): row for row in rows}
    assert set(found) == {
        ("channel", "bill"), ("channel", "ship"), ("rocketmq", "g"), ("log", "spark")
    }  # fmt: skip
    assert found["rocketmq", "g"].rate_out == 12.5
    assert found["channel", "bill"].rate_out == 1010.0
    assert found["channel", "ship"].idle
    assert not found["log", "spark"].idle


def test_members_of_a_reader_or_of_all() -> None:
    cluster = busy_cluster()
    rows = reader_rows(cluster.all(), "orders", cluster.history, by_node=True)
    bill = next(row for row in rows if row.name == "bill" and row.node == "10.0.0.1:4151")
    elsewhere = next(row for row in rows if row.name == "bill" and row.node == "10.0.0.2:4151")
    assert [name for _, name, _ in members(cluster.all(), "orders", bill)] == ["bill"]
    assert members(cluster.all(), "orders", elsewhere) == []
    assert len(members(cluster.all(), "orders", None)) == 2


def test_the_total() -> None:
    cluster = busy_cluster()
    added = total(topic_rows(cluster.all(), cluster.history, by_node=False))
    assert (added.name, added.messages, added.rate_in) == ("total", 4940, 1010.0)
    assert total([]).rate_in is None


TOPICS = """\
penstock top  by name
● 10.0.0.3:4151 connection refused   ● 10.0.0.1:4151   ● 10.0.0.2:4151

TOPIC              IN/s    OUT/s       LAG  RATE IN         DEPTH  IN FL.    DEF.    REQ.  TIMEO.    DEAD   CLI.   CH.  MESSAGES
clicks                0        0      900                     900       0       0       0       0       0      0     0       900
orders             1010     1510     2040▲          ████        0       5       0       4       3       0      2     3      4040

2 topics  in 1010/s  out 1510/s  lag 2940  in flight 5  clients 2  ████
q quit  ↑↓ choose  ⏎ open  ← back  / filter  s sort  r reverse  n nodes  ? help"""  # noqa: E501

NARROW = """\
penstock top  by name
● 10.0.0.3:4151 connection refused   ● 2 nodes

TOPIC              IN/s    OUT/s       LAG  IN FL.   CLI.
clicks                0        0      900        0      0
orders             1010     1510     2040▲       5      2

2 topics  in 1010/s  out 1510/s  lag 2940  in flight 5
q quit  ? help"""

ONE_TOPIC = """\
penstock top  topic orders  by name
● 10.0.0.3:4151 connection refused   ● 10.0.0.1:4151   ● 10.0.0.2:4151

CHANNEL         KIND         IN/s    OUT/s       LAG  RATE IN         DEPTH  IN FL.    REQ.  TIMEO.   CLI.
bill                         1010     1010        5           ████        0       5       4       0      1
g               rocketmq        0       12        7                       7       0       0       0      1
ship                         1000      500     2000▲          ████     2000       0       0       3      0
spark           log             0        0       40                      40       0       0       0      0

CLIENT  CHANNEL  ADDRESS        RDY  IN FL.  FIN  REQ.  SOFTWARE
worker  bill     10.0.0.9:5555  200       5  900     2  go-nsq/1.1.0

4 channels and groups  in 1010/s  out 1522/s  lag 2052  in flight 5  clients 2  ████
q quit  ↑↓ choose  ⏎ open  ← back  / filter  s sort  r reverse  n nodes  ? help"""  # noqa: E501

TABLE = """\
● 10.0.0.1:4151
● 10.0.0.2:4151
● 10.0.0.3:4151 connection refused

TOPIC / CHANNEL  KIND         IN/s    OUT/s       LAG    DEPTH  IN FL.    DEF.    REQ.  TIMEO.    DEAD   CLI.  MESSAGES
clicks                           0        0      900       900       0       0       0       0       0      0       900
orders                        1010     1510     2040▲        0       5       0       4       3       0      2      4040
  bill                        1010     1010        5         0       5       0       4       0       0      1      4040
  g              rocketmq        0       12        7         7       0       0       0       0       0      1        49
  ship                        1000      500     2000▲     2000       0       0       0       3       0      0      4000
  spark          log             0        0       40        40       0       0       0       0       0      0       100
total                         1010     1510     2940▲      900       5       0       4       3       0      2      4940"""  # noqa: E501


def shown(lines: list[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)


@pytest.fixture
def view() -> View:
    return View(busy_cluster())


def test_topics_a_topic_and_the_plain_table(view: View) -> None:
    assert shown(draw.screen(view, 130, 9)) == TOPICS
    assert shown(draw.screen(view, 62, 9)) == NARROW
    assert shown(draw.screen(view, 80, 24)).endswith("n nodes  ? help")
    assert shown(draw.table(view)) == TABLE
    view.press("end")
    view.press("enter")
    assert shown(draw.screen(view, 110, 14)) == ONE_TOPIC


def test_what_a_client_calls_itself_gives_the_terminal_no_orders() -> None:
    told = client(client_id="a\x1b[2J", user_agent="b\nc\x9b0m")
    cluster = Cluster()
    cluster.put(at("10.0.0.1:4151", 0, topic("t", channel("c", clients=[told]))))
    view = View(cluster)
    view.press("enter")
    [row] = [line.plain for line in draw.screen(view, 110, 14) if "10.0.0.9" in line.plain]
    assert row.split()[0] == r"a\x1b[2J"
    assert row.split()[-1] == r"b\nc\x9b0m"


@pytest.mark.parametrize("key", [None, "n", "?", "enter", "s"])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (20, 3), (79, 24), (80, 5), (250, 60)])
def test_every_size_is_filled_and_never_passed(
    view: View, key: str | None, width: int, height: int
) -> None:
    view.press("end")
    if key is not None:
        view.press(key)
    lines = draw.screen(view, width, height)
    assert len(lines) == height
    assert max(len(line) for line in lines) <= width


def test_the_chosen_row_is_in_sight_and_marked(view: View) -> None:
    view.press("end")
    lines = draw.screen(view, 80, 7)  # one row has room
    marked = [line.plain for line in lines if any(span.style == "reverse" for span in line.spans)]
    assert len(marked) == 1
    assert marked[0].startswith("orders")


def test_words_instead_of_nothing() -> None:
    view = View(Cluster())
    assert "no nodes yet" in shown(draw.screen(view, 80, 10))
    assert "no topics" in shown(draw.table(view))
    for key in "/xyz":
        view.press(key)
    assert "no topic's name contains 'xyz'" in shown(draw.screen(view, 80, 10))
    assert "/xyz▏" in shown(draw.screen(view, 80, 10))


def test_trouble_is_said(view: View) -> None:
    view.cluster.troubles.append("nsqlookupd 10.0.0.4:4161: timed out")
    assert "nsqlookupd 10.0.0.4:4161: timed out" in shown(draw.screen(view, 80, 12))
    assert "nsqlookupd 10.0.0.4:4161: timed out" in shown(draw.table(view))


def test_the_help_is_whole_in_80_columns_and_24_lines(view: View) -> None:
    view.press("?")
    text = shown(draw.screen(view, 80, 24))
    assert text == shown(draw.screen(view, 300, 24))
    assert "messages wait and nobody consumes them" in text
    assert "requeued, timed out, dead letters since the start" in text
    assert "any key goes back" in text
