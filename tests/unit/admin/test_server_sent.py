"""Figures that go to browsers as they change: all rows once, then what changed, within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.admin.history import server_sent
from penstock.admin.history.facts import FACTS
from penstock.admin.history.history import FIGURES, History
from penstock.admin.history.layout import RowFilter
from penstock.admin.history.lost_nodes import GIVEN_UP_S
from penstock.admin.history.row_numbers import Key
from penstock.admin.history.sample import Sample
from penstock.admin.history.server_sent import Events
from penstock.admin.verdicts import attention as attention_module
from penstock.net.http.server.service import StreamingResponse
from tests.unit.admin.conftest import channel, topic
from tests.unit.admin.test_history import FIRST, busy, sample


class Watched:
    """A history and those who watch it; what they were sent is in the streams' `_early`."""

    def __init__(self) -> None:
        self.history = History(10)
        self.events = Events(self.history)
        self.count = 0

    def refresh(self, *samples: tuple[str, Any], message: str = "") -> None:
        time = FIRST + 10 * self.count
        self.count += 1
        self.history.take(time, samples)
        self.events.refreshed(time, message)

    def watch(self, **wish: str) -> StreamingResponse:
        stream = self.events.watch(RowFilter(**wish))
        assert stream is not None
        return stream


def taken(stream: StreamingResponse) -> list[tuple[str, dict[str, Any]]]:
    """The events that came since the last time."""
    events = [text.decode().removesuffix("\n\n").split("\n") for text in stream._early]
    stream._early.clear()
    return [
        (event.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for event, data in events
    ]


def keys(event: dict[str, Any]) -> list[list[str]]:
    return [row[:3] for row in event["rows"]]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_all_rows_and_then_what_changes(watched: Watched) -> None:
    watched.refresh(("a", busy(1, 5)))
    stream = watched.watch()
    ((name, state),) = taken(stream)
    assert name == "state"
    assert state["figures"] == [*FIGURES, *FACTS]
    assert state["missing"] == []
    assert sorted(row[:4] for row in state["rows"]) == [
        ["", "", "", 5], ["", "", "a", 5], ["t", "", "", 0], ["t", "c", "", 5],
    ]  # fmt: skip
    watched.refresh(("a", busy(1, 5)), message="WARNING: x")
    ((name, nothing),) = taken(stream)
    assert (name, nothing["rows"], nothing["message"]) == ("refresh", [], "WARNING: x")
    watched.refresh(("a", busy(1, 6)))
    ((_, more),) = taken(stream)
    changed = sorted(keys(more))
    assert changed == [["", "", ""], ["", "", "a"], ["t", "", ""], ["t", "c", ""]]


def test_what_goes(watched: Watched) -> None:
    watched.refresh(("a", busy(1, 1)))
    stream = watched.watch()
    watched.refresh(("a", sample()))
    (_, (_, found)) = taken(stream)
    assert found["gone"] == [["t", "", ""], ["t", "c", ""]]
    watched.refresh(("a", sample()))
    ((_, found),) = taken(stream)
    assert found["gone"] == []


def test_only_what_is_wished_for(watched: Watched) -> None:
    watched.refresh(("a", busy(1, 1)))
    by_topic, by_node = watched.watch(topic="t"), watched.watch(node="a")
    watched.refresh(("a", busy(1, 2)))
    assert [keys(event) for _, event in taken(by_topic)] == [
        [["t", "", ""], ["t", "c", ""]], [["t", "", ""], ["t", "c", ""]],
    ]  # fmt: skip
    assert [keys(event) for _, event in taken(by_node)] == [
        [["", "", "a"]], [["", "", "a"]],
    ]  # fmt: skip


def test_facts_and_nodes_that_are_missing(watched: Watched) -> None:
    watched.refresh(
        ("a", busy(1, 1, client_count=2)), ("b", busy(1, 1, client_count=1, paused=True))
    )
    ((_, state),) = taken(watched.watch())
    facts = {tuple(row[:3]): row[-5:] for row in state["rows"]}
    assert facts["t", "c", ""] == [3, 1, 0, 2, 0]
    assert facts["t", "", ""] == [3, 0, 1, 2, 0]
    assert (state["since"], state["missing"]) == (FIRST, [])
    stream = watched.watch()
    watched.refresh(("a", busy(1, 1, client_count=2)))
    (_, (_, changed)) = taken(stream)
    assert {tuple(row[:3]): row[-5:] for row in changed["rows"]}["t", "c", ""] == [2, 0, 0, 2, 1]
    (missing,) = changed["missing"]
    assert missing == {"node": "b", "at": FIRST, "until": FIRST + GIVEN_UP_S, "depth": 1}
    watched.refresh(("a", busy(1, 1)), ("b", busy(1, 1)))
    ((_, found),) = taken(stream)
    assert found["missing"] == []


def test_what_is_the_matter_with_a_topic(watched: Watched) -> None:
    def both(depth: int) -> Sample:
        group = {"group_name": "g", "lag": 5000 + depth, "rate": 9.0}
        return sample(topic("t", channel("c", depth=depth), consumer_groups=[group]),
                      topic("u", channel("c", depth=depth)))  # fmt: skip

    for depth in (1, 101, 201):
        watched.refresh(("a", both(depth)))
    (_, told) = taken(watched.watch(topic="t"))[0]
    assert [(each["kind"], each["names"]) for each in told["attention"]] == [
        ("growing", ["t", "@g"]), ("unattended", ["t", "c"]),
    ]  # fmt: skip
    assert watched.events.growth("t", "g") == 10
    assert watched.events.growth("t", "none") is None
    (_, told) = taken(watched.watch(topic="u", node="a"))[0]
    assert told["attention"] == []


def test_channels_are_judged_by_the_nodes_that_answer(watched: Watched) -> None:
    watched.refresh(("a", busy(1, 5000)), ("b", busy(1, 0, client_count=1)))
    watched.refresh(("b", busy(1, 0, client_count=1)))
    (_, told) = taken(watched.watch(level="overview"))[0]
    assert told["attention"] == []
    assert told["rows"][0][:4] == ["", "", "a", 5000]


def test_an_overview(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sent, "BUSIEST", 2)
    monkeypatch.setattr(attention_module, "ITEMS_MAX", 1)

    def cluster(messages: int) -> Sample:
        group = {"group_name": "g", "lag": 7, "rate": 1.5}
        return sample(
            topic("idle", channel("c", depth=5), log_groups=[group]),
            topic("busy", channel("c", client_count=2), message_count=5 * messages),
            topic("some", channel("c", depth=9), message_count=messages),
            topic("gone"),
        )

    watched.refresh(("a", cluster(0)))
    stream = watched.watch(level="overview")
    watched.refresh(("a", cluster(10)))
    (first, _), (second, told) = taken(stream)
    assert (first, second) == ("state", "state")
    assert keys(told) == [
        ["", "", "a"], ["", "", ""], ["idle", "@g", ""], ["busy", "", ""], ["some", "", ""],
    ]  # fmt: skip
    facts = dict(zip(told["figures"], told["rows"][1][3:], strict=True))
    assert (facts["clients"], facts["channels"], facts["depth"]) == (2, 3, 14)
    (item,) = told["attention"]
    assert (item["kind"], item["names"], item["depth"]) == ("unattended", ["some", "c"], 9)
    assert told["attention_more"] == 1
    watched.refresh(("a", sample()))
    ((_, told),) = taken(stream)
    assert (keys(told), told["attention"]) == (
        [["", "", "a"], ["", "", ""]], [])  # fmt: skip


def test_a_row_that_becomes_somebody_elses(watched: Watched) -> None:
    watched.refresh(("a", busy(1, 1, name="old")))
    stream = watched.watch(topic="t")
    watched.history.sums.release([watched.history.sums.find(Key("t", "old"))])  # type: ignore
    watched.refresh(("a", busy(1, 1, name="new")))
    (_, (_, told)) = taken(stream)
    assert told["gone"] == [["t", "old", ""]]
    assert ["t", "new", ""] in keys(told)


def test_before_the_first_refresh(watched: Watched) -> None:
    ((name, state),) = taken(watched.watch())
    assert (name, state["rows"]) == ("state", [])
    ((_, told),) = taken(watched.watch(level="overview"))
    assert (told["rows"], told["attention"], told["attention_more"]) == ([], [], 0)


def test_latencies_that_begin(watched: Watched) -> None:
    plain: Sample = busy(1, 1)
    watched.refresh(("a", plain))
    stream = watched.watch()
    timed = busy(1, 1)
    timed.latencies = [(1, [(0.99, 7.0)])]
    watched.refresh(("a", timed))
    (_, (_, found)) = taken(stream)
    assert found["quantiles"] == [0.99]
    (channel_row,) = (row for row in found["rows"] if row[1] == "c")
    assert channel_row[-1] == 7


def test_watchers_are_bounded_and_go(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sent, "WATCHERS_MAX", 2)
    first, _ = watched.watch(), watched.watch()
    assert watched.events.watch(RowFilter()) is None
    first.lost()
    first.lost()
    assert len(watched.events) == 1
    watched.watch()


def test_without_channels_and_groups(watched: Watched) -> None:
    watched.refresh(("a", busy(1, 1)))
    topics, one = watched.watch(level="topics"), watched.watch(level="topics", topic="t")
    watched.refresh(("a", busy(2, 2)))
    watched.refresh(("a", sample()))
    state, changed, without = taken(topics)
    assert sorted(keys(state[1])) == [
        ["", "", ""], ["", "", "a"], ["t", "", ""],
    ]  # fmt: skip
    assert [row[:3] for row in changed[1]["rows"] if row[1]] == []
    assert without[1]["gone"] == [["t", "", ""]]
    assert [row[:3] for _, event in taken(one) for row in event["rows"]] == [["t", "", ""]] * 2
