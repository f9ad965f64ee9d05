"""Screens of fixed sizes, as they look."""

from __future__ import annotations

import pytest
from rich.text import Text

from penstock.cli.top import draw
from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.view import View
from tests.unit.cluster.samples import at, busy_cluster, channel, client, topic

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


def test_topics(view: View) -> None:
    assert shown(draw.screen(view, 130, 9)) == TOPICS


def test_a_narrow_terminal(view: View) -> None:
    assert shown(draw.screen(view, 62, 9)) == NARROW


def test_a_topic_with_its_channels_and_clients(view: View) -> None:
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


def test_the_plain_table(view: View) -> None:
    assert shown(draw.table(view)) == TABLE


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


def test_the_keys_have_room_in_80_columns(view: View) -> None:
    assert shown(draw.screen(view, 80, 24)).endswith("n nodes  ? help")
