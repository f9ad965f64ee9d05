"""What nsqadmin remembers of nodes: samples, rates and sums of an hour, nodes that are gone."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.admin.history import history as history_module
from penstock.admin.history import layout as layout_module
from penstock.admin.history import lost_nodes as lost_module
from penstock.admin.history.facts import FACTS, facts_of
from penstock.admin.history.history import FIGURES as HISTORY_FIGURES
from penstock.admin.history.history import History, Series
from penstock.admin.history.layout import Layout, RowFilter
from penstock.admin.history.lost_nodes import GIVEN_UP_S, LostNode, LostNodes
from penstock.admin.history.node_rows import NodeRows, column_rows
from penstock.admin.history.ring import HOUR_S, Ring
from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.history.sample import (
    FIGURES,
    PackedAnswer,
    Sample,
    StatsAnswer,
    answer_type,
    sample_of,
)
from tests.unit.admin.conftest import channel, topic


def sample(*topics: object) -> Sample:
    body = json.dumps({"topics": topics, "memory": {}}).encode()
    return sample_of(msgspec.json.decode(body, type=answer_type(body)))


def test_columns() -> None:
    found = sample(
        topic("a", message_count=9, depth=1),
        topic("b", channel("c", depth=2, in_flight_count=3, deferred_count=4, message_count=10),
              channel("d", requeue_count=5, timeout_count=6)),
    )  # fmt: skip
    assert found.names == [("a", []), ("b", ["c", "d"])]
    assert found.depth.tolist() == [1, 0, 2, 0]
    assert found.done.tolist() == [8, 0, 1, 0]
    assert found.messages.tolist() == [9, 0, 10, 0]
    assert found.in_flight.tolist() == [0, 0, 3, 0]
    assert (found.requeues.tolist(), found.timeouts.tolist()) == ([0, 0, 0, 5], [0, 0, 0, 6])
    assert found.latencies == []


def test_numbers_that_no_daemon_should_tell() -> None:
    found = sample(topic("a", channel("c", message_count=1 << 64), message_count=-1))
    assert found.messages.tolist() == [-1, 2.0**64]


def test_latencies() -> None:
    latency = {"count": 1, "percentiles": [{"quantile": 0.99, "value": 7}]}
    found = sample(topic("a", channel("c", e2e_processing_latency=latency)), topic("b"))
    assert found.latencies == [(2, [(0.99, 7.0)])]


def packed(**changes: object) -> bytes:
    """What an nsqd of ours answers: topic a without, b with channel c."""
    rows = {"a": dict.fromkeys(FIGURES, 1), "b": {"depth": 2, "message_count": 9},
            "c": {"depth": 3, "in_flight_count": 4, "deferred_count": 5, "client_count": 6,
                  "paused": 1}}  # fmt: skip
    names = [*reversed(FIGURES), "of_another_version"]
    flat = [row.get(name, 0) for row in rows.values() for name in names]
    answer = {"packed": struct.pack(f"<{len(flat)}q", *flat), "figures": names,
              "topics": ["a", "b"], "channels": [[], ["c"]], "latencies": [[2, [[0.99, 7]]]],
              "groups": [{"topic_name": "b", "consumer_groups": [], "log_groups": [
                  {"group_name": "g", "lag": 5, "rate": 0.5, "committed": {"0": 1}}]}],
              "version": "1.3.0"}  # fmt: skip
    return msgspec.json.encode({**answer, **changes})


def test_packed() -> None:
    body = packed()
    assert answer_type(body) is PackedAnswer
    found = sample_of(msgspec.json.decode(body, type=PackedAnswer))
    assert found.names == [("a", []), ("b", ["c"])]
    assert (found.depth.tolist(), found.messages.tolist()) == ([1, 2, 3], [1, 9, 0])
    assert (found.done.tolist(), found.clients.tolist()) == ([-2, 7, -12], [1, 0, 6])
    assert (found.paused.tolist(), found.backend_depth.tolist()) == ([1, 0, 1], [1, 0, 0])
    assert found.latencies == [(2, [(0.99, 7.0)])]
    assert (found.groups.names, found.groups.lags.tolist()) == ([("b", "@g")], [5])
    nothing = packed(packed=b"", topics=[], channels=[], latencies=[], groups=[])
    for look in (msgspec.json.decode(nothing, type=PackedAnswer), StatsAnswer(), StatsAnswer([])):
        assert len(sample_of(look).depth) == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"packed": b"1234"}, "not of the same number"),
        ({"topics": ["a"]}, "not of the same number"),
        ({"channels": [["x"], ["c"]]}, "not of the same number"),
        ({"figures": ["depth"]}, "without backend_depth, client_count"),
        ({"figures": []}, "without backend_depth"),
        ({"latencies": [[3, []]]}, "a latency of no row"),
        ({"latencies": [[-1, []]]}, "a latency of no row"),
        ({"packed": 1}, "Expected `bytes`"),
    ],
)
def test_packed_as_nobody_should(changes: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.json.decode(packed(**changes), type=PackedAnswer)


def test_groups_are_beside_the_rest() -> None:
    found = sample(
        topic("a", channel("c", depth=2), log_groups=[{"group_name": "g", "lag": 5, "rate": 0.5}]),
        topic("b", consumer_groups=[{"group_name": "g", "lag": 1, "rate": 2.0, "clients": None}],
              log_groups=[{"group_name": "g", "lag": 2, "rate": 1.0}]),
    )  # fmt: skip
    assert found.names == [("a", ["c"]), ("b", [])]
    assert found.depth.tolist() == [0, 0, 2]
    assert found.groups.names == [("a", "@g"), ("b", "@g")]
    assert found.groups.lags.tolist() == [5, 3]
    assert found.groups.dialects == ["log", "rocketmq"]
    assert found.groups.rates.tolist() == [0.5, 3]
    assert sample(topic("a")).groups.names == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=40))
def test_a_key_keeps_its_row_until_that_is_released(steps: list[tuple[bool, int]]) -> None:
    found, model, refused = Rows(3), dict[Key, int](), 0
    for now, (is_released, number) in enumerate(steps):
        key = Key(str(number))
        if is_released and key in model:
            found.release([model.pop(key)] * 2)
            refused = 0
        elif not is_released:
            row = found.row(key, float(now))
            if key not in model and len(model) == 3:
                assert row == -1
                refused += 1
            elif key not in model:
                assert row in {0, 1, 2} - set(model.values())
                assert (found.keys[row], found.born[row]) == (key, now)
                model[key] = row
        assert {each: found.find(each) for each in map(Key, "01234")} == {
            each: model.get(each) for each in map(Key, "01234")
        }
        assert found.refused == refused
    assert len(found) <= 3


@given(st.lists(st.integers(0, 9000), max_size=20), st.integers(0, 9000))
def test_a_ring_has_the_newest_points_of_an_hour(times: list[int], since: int) -> None:
    """Whatever the clock does: what is later than the newest point was of another time."""
    ring, model = Ring(4), list[int]()
    for time in times:
        ring.add(time, np.array([[time, -time]], np.float32))
        model = [*(each for each in model if time - HOUR_S <= each < time), time][-4:]
        shown = [each for each in model if each >= since]
        assert ring.series(1, since) == (shown, [[-each for each in shown]] if shown else [])
    assert ring.nbytes == len(model) * 2 * 4


def test_tables_grow() -> None:
    """With rows that are new, and with latencies once there are some."""
    ring = Ring(5)
    ring.add(1.0, np.array([[1]], np.float32))
    ring.add(2.0, np.array([[2, 3], [4, 5]], np.float32))
    np.testing.assert_array_equal(ring.series(1, 0.0)[1], [[math.nan, 3], [math.nan, 5]])


KEYS = [Key(), Key(node="n:1"), Key("t"), Key("t", "c"), Key("t", "@g"), Key("u")]


def rows(*keys: Key) -> Rows:
    found = Rows(100)
    for key in keys:
        found.row(key, 1.0)
    return found


def test_what_rows_are_of() -> None:
    layout = Layout(rows(*KEYS))
    assert layout.topics.nonzero()[0].tolist() == [2, 5]
    assert layout.channels.nonzero()[0].tolist() == [3]
    assert (layout.groups.tolist(), layout.others.tolist()) == ([4], [0, 1])
    assert layout.read([4]).nonzero()[0].tolist() == [2]
    assert not Layout(rows(Key("t", "@g"))).read([0]).any()  # the topic found no room


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (RowFilter(), [0, 1, 2, 3, 4, 5]),
        (RowFilter(topic="t"), [2, 3, 4]),
        (RowFilter(node="n:1"), [1]),
        (RowFilter(level="topics"), [0, 1, 2, 5]),
        (RowFilter(topic="t", level="topics"), [2]),
        (RowFilter(topic="none"), []),
    ],
)
def test_wishes(wish: RowFilter, expected: list[int]) -> None:
    layout = Layout(rows(*KEYS))
    assert layout.rows_of(wish).tolist() == expected
    assert layout.rows_of(wish) is layout.rows_of(wish)


def test_wishes_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "_KEPT", 3)
    layout = Layout(rows(*KEYS))
    for number in range(10):
        layout.rows_of(RowFilter(topic=str(number)))
    assert len(layout._known) <= 3


def test_what_stays() -> None:
    known = rows(*KEYS)
    before = Layout(known)
    assert Layout(known).stays(before).all()
    known.release([3])
    known.row(Key("t", "new"), 2.0)
    known.row(Key("v"), 2.0)
    assert Layout(known).stays(before).tolist() == [True, True, True, False, True, True, False]


def placed(rows: list[int]) -> tuple[Any, Any]:
    return column_rows(np.array(rows, np.intp))


def test_rows_that_follow_one_another_are_a_slice() -> None:
    assert column_rows(np.array([4, 5, 6])) == (slice(0, 3), slice(4, 7))
    assert column_rows(np.array([-1, 5, 6])) == (slice(1, 3), slice(5, 7))
    columns, rows = placed([4, -1, 6])
    assert (list(columns), list(rows)) == ([0, 2], [4, 6])
    columns, rows = placed([2, 1])
    assert (columns, list(rows)) == (slice(0, 2), [2, 1])
    columns, rows = placed([])
    assert (len(columns), len(rows)) == (0, 0)


def test_topics_and_their_channels() -> None:
    look = sample(
        topic("none"),
        topic("two", channel("a"), channel("b")),
        topic("one", channel("c"), log_groups=[{"group_name": "g"}]),
    )
    places = NodeRows(look, [], [10, 11, -1, 12, 13, 14, 15], [-1, 3])
    assert (places.topics, places.figures) == (3, 6)
    assert places.always.tolist() == [3]
    assert places.above.tolist() == [11, 11, -1]
    assert places.channels == (slice(0, 3), slice(12, 15))
    assert places.heads.tolist() == [3, 5]  # columns: none, two, one, a, b, c, @g
    assert places.headed == (slice(0, 1), slice(11, 12))  # no row for topic one


FIRST = 1_000_000.0


def busy(messages: int, depth: int, *, name: str = "c", **more: int) -> Sample:
    """A topic t with one channel."""
    own = channel(name, message_count=messages, depth=depth, **more)
    return sample(topic("t", own, message_count=messages))


def series_of(history: History, *key: str) -> Series:
    series = history.series(Key(*key))
    assert series is not None
    return series


def figure(series: Series, name: str) -> list[float]:
    return series.values[HISTORY_FIGURES.index(name)]


def newest(history: History, *key: str) -> dict[str, float]:
    values = series_of(history, *key).values
    return dict(zip(HISTORY_FIGURES, (each[-1] for each in values), strict=False))


def test_rates_and_sums() -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(100, 5)), ("b", busy(10, 1))])
    assert newest(history, "t", "c")["in"] == 0  # nothing to compare with
    history.take(FIRST + 10, [
        ("a", busy(150, 15, requeue_count=20, in_flight_count=3)),
        ("b", busy(30, 1, timeout_count=10)),
    ])  # fmt: skip
    expected = {"depth": 16, "in": 7, "out": 5.7, "in_flight": 3, "requeues": 2, "timeouts": 1}
    assert newest(history, "t", "c") == pytest.approx(expected)
    assert newest(history, "t") == pytest.approx({**expected, "depth": 0})
    assert newest(history) == pytest.approx(expected)
    assert newest(history, "", "", "b") == pytest.approx(
        {"depth": 1, "in": 2, "out": 2, "in_flight": 0, "requeues": 0, "timeouts": 1}
    )
    assert history.series(Key("t", "x")) is None


def test_a_node_that_restarts_comes_and_goes_makes_no_peak() -> None:
    history = History(10)
    for number, samples in enumerate((
        [("a", busy(1000, 0)), ("b", busy(5000, 0))],
        [("a", busy(1010, 0))],
        [("a", busy(10, 0)), ("b", busy(6000, 0))],
        [("a", busy(20, 0)), ("b", busy(6010, 0))],
    )):  # fmt: skip
        history.take(FIRST + 10 * number, samples)
    series = series_of(history, "t", "c")
    assert figure(series, "in") == [0, 1, 0, 2]


def test_a_new_channel_does_not_disturb_the_others() -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(100, 0))])
    both = [channel("b", message_count=900), channel("c", message_count=110)]
    history.take(FIRST + 10, [("a", sample(topic("t", *both, message_count=110)))])
    assert newest(history, "t", "c")["in"] == 1
    assert newest(history, "t", "b")["in"] == 0


def test_what_is_gone_has_no_figures() -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(1, 1)), ("b", sample())])
    history.take(FIRST + 10, [("a", sample()), ("b", sample())])
    assert math.isnan(newest(history, "t", "c")["depth"])
    assert newest(history, "", "", "b")["depth"] == 0  # a node without topics is there
    history.take(FIRST + 20, [])  # nothing waited on either
    assert math.isnan(newest(history)["depth"])


def test_what_waits_on_a_node_that_does_not_answer_stays_in_the_sums() -> None:
    history = History(10)
    for number in range(2):
        history.take(FIRST + 10 * number, [("a", busy(10, 180)), ("b", busy(20 * number, 160))])
    assert newest(history)["depth"] == 340
    history.take(FIRST + 20, [("a", busy(20, 181))])
    assert newest(history, "t", "c")["depth"] == 341
    assert newest(history)["depth"] == 341
    assert newest(history, "", "", "b")["depth"] == 160
    assert newest(history, "t", "c")["in"] == 1  # of the node that answers
    assert math.isnan(newest(history, "", "", "b")["in"])
    assert history.answered[history.sums.find(Key("t", "c"))] == 181
    series = series_of(history, "t")
    assert (series.waiting, series.partial) == ([340, 340, 341], [0, 0, 1])
    history.take(FIRST + 30, [])
    assert newest(history)["depth"] == 341
    history.take(FIRST + 40, [("a", busy(20, 0)), ("b", busy(21, 1))])
    assert newest(history)["depth"] == 1
    series = series_of(history)
    assert series.partial == [0, 0, 1, 1, 0]
    assert figure(series, "in")[-1] == 0  # what came meanwhile is not a rate


def test_groups_of_a_node_that_does_not_answer_keep_their_lag() -> None:
    history = History(10)
    history.take(FIRST, [("a", grouped(7, 1.5, "g")), ("b", grouped(2, 0.5, "g"))])
    history.take(FIRST + 10, [("a", grouped(7, 1.5, "g"))])
    assert (newest(history, "t", "@g")["depth"], newest(history, "t", "@g")["out"]) == (9, 1.5)
    times, lags = history.lags(np.array([history.sums.find(Key("t", "@g"))]), FIRST + 5)
    assert (times.tolist(), lags.tolist()) == ([FIRST + 10], [[9]])


def test_parts_have_a_point_a_minute() -> None:
    history = History(10)
    for number in range(13):
        history.take(FIRST + 10 * number, [("a", busy(number * 60, number))])
    series = series_of(history, "t", "c", "a")
    assert series.times == [FIRST, FIRST + 60, FIRST + 120]
    assert figure(series, "depth") == [0, 6, 12]
    assert figure(series, "in") == pytest.approx([0, 6, 6])
    assert history.series(Key("t", "", "a")) is not None


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    history = History(10)
    for number in range(3):
        ahead = FIRST + 86_400 + 10 * number
        samples = [("a", busy(10 * number, 3)), ("b", busy(0, 5)), ("c", busy(0, 7))]
        history.take(ahead, samples[: 3 - number] or samples)
    for number in range(8):
        history.take(FIRST + 10 * number, [("a", busy(100 * number, 3))])
    series = series_of(history, "t", "c")
    assert series.times == [FIRST + 10 * number for number in range(8)]
    assert figure(series, "in")[1:] == [10] * 7
    assert figure(series, "depth") == [15] * 8
    assert series.partial == [1] * 8
    assert series_of(history, "t", "c", "a").times == [FIRST + 60]
    assert {each.node: each.at for each in history.lost} == {"b": FIRST, "c": FIRST}
    history.take(FIRST + GIVEN_UP_S, [("a", busy(1000, 3))])
    assert {each.node for each in history.lost.given_up} == {"b", "c"}
    assert newest(history, "t", "c")["depth"] == 3
    history.take(FIRST - 5, [("a", busy(1000, 3, name="d"))])
    assert [each.dropped_at for each in history.lost.given_up] == [FIRST - 5] * 2
    assert history.series(Key("t", "c")) is not None
    history.take(FIRST + HOUR_S + 1, [("a", busy(1000, 3, name="d"))])
    assert history.series(Key("t", "c")) is None


def test_latencies_over_nodes() -> None:
    def timed(value: int) -> Sample:
        latency = {"count": 1, "percentiles": [{"quantile": 0.5, "value": 1}, {"quantile": 0.99,
                   "value": value}]}  # fmt: skip
        return sample(topic("t", channel("c", e2e_processing_latency=latency)))

    history = History(10)
    history.take(FIRST, [("a", busy(1, 1))])
    history.take(FIRST + 10, [("a", timed(7)), ("b", timed(9))])
    history.take(FIRST + 20, [("a", timed(0)), ("b", timed(0))])  # nothing was finished lately
    assert history.quantiles == [0.99, 0.5]
    series = series_of(history, "t", "c")
    high, low = series.values[len(HISTORY_FIGURES) :]
    assert (high[1], low[1]) == (9, 1)
    assert math.isnan(high[0])
    assert math.isnan(high[2])


def test_rows_that_are_gone_for_an_hour_are_others() -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(1, 1, name="old"))])
    history.take(FIRST + HOUR_S + 1, [("a", busy(1, 1, name="c"))])
    assert history.series(Key("t", "old")) is None
    history.take(FIRST + HOUR_S + 11, [("a", busy(1, 1, name="new"))])
    assert series_of(history, "t", "new").times == [FIRST + HOUR_S + 11]


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "SUMS_MAX", 4)
    monkeypatch.setattr(history_module, "PARTS_MAX", 3)
    history = History(10)
    many = sample(*(topic(f"t{number}", channel("c", depth=1)) for number in range(10)))
    for number in range(30):
        history.take(FIRST + number, [("a", many)])
    assert (len(history.sums), len(history.parts)) == (4, 3)
    assert history.nbytes < 10_000


def test_a_full_history_tells_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history_module, "SUMS_MAX", 6)
    history = History(10)
    for number in range(3):
        history.take(FIRST + number, [("a", sample(topic("t"), *map(topic, "abcdef"[number:])))])
    said = "history: it has room for 6 topics, channels, groups and nodes; what is more is not"
    assert caplog.text.count(said) == 1
    # What found no room gets it as soon as there is some, with its counters.
    less = [topic("t"), topic("e", message_count=1), topic("f", message_count=5)]
    history.take(FIRST + 4, [("a", sample(*less))])
    history.take(FIRST + 5, [("a", sample(*less))])
    assert history.series(Key("f")) is not None
    history.take(FIRST + 6, [("a", sample(*less[:-1], topic("f", message_count=8)))])
    assert newest(history, "f")["in"] == 3
    history.take(FIRST + 7, [("a", sample(*map(topic, "abcdefgh")))])
    assert caplog.text.count(said) == 2


def grouped(lag: int, rate: float, *names: str) -> Sample:
    """Topic t with a channel, and these groups beside it."""
    groups = [{"group_name": name, "lag": lag, "rate": rate} for name in names]
    own = channel("c", depth=5, in_flight_count=1, message_count=10)
    return sample(topic("t", own, message_count=10, log_groups=groups))


def test_groups_count_for_themselves_only() -> None:
    history, plain = History(10), History(10)
    for number in range(2):
        time = FIRST + 10 * number
        history.take(time, [("a", grouped(7, 1.5, "g")), ("b", grouped(2, 0.5, "g", "h"))])
        plain.take(time, [("a", grouped(0, 0)), ("b", grouped(0, 0))])
    nothing = {"in": 0, "in_flight": 0, "requeues": 0, "timeouts": 0}
    assert newest(history, "t", "@g") == {"depth": 9, "out": 2, **nothing}
    assert newest(history, "t", "@h") == {"depth": 2, "out": 0.5, **nothing}
    assert newest(history, "t", "@g", "a") == {"depth": 7, "out": 1.5, **nothing}
    for key in (("t",), ("t", "c"), ("", "", "a"), ()):
        assert newest(history, *key) == newest(plain, *key)


def test_figures_that_are_nonsense_are_cut_off() -> None:
    history = History(10)
    history.take(FIRST, [(node, grouped(7, 5e307, "g")) for node in "ab"])
    assert newest(history, "t", "@g")["out"] == pytest.approx(2e30)


def test_groups_come_and_go() -> None:
    history = History(10)
    history.take(FIRST, [("a", grouped(1, 0))])
    history.take(FIRST + 10, [("a", grouped(2, 0, "g", "h"))])
    history.take(FIRST + 20, [("a", grouped(3, 0, "h"))])
    assert math.isnan(newest(history, "t", "@g")["depth"])
    assert newest(history, "t", "@h")["depth"] == 3
    assert newest(history, "t", "c")["depth"] == 5


def test_points_are_bounded() -> None:
    history = History(1)
    for number in range(history_module.POINTS_MAX + 5):
        history.take(FIRST + number, [])
    history.take(FIRST + 1000, [("a", sample())])
    assert len(series_of(history).times) == 1


def test_facts_over_nodes() -> None:
    first = sample(topic("t", channel("c", client_count=2), channel("d", paused=True)))
    second = sample(topic("t", channel("c", client_count=1), channel("e"), paused=True))
    # rows: 0 is t, 1 c, 2 d, 3 e
    placed = [(each, NodeRows(each, [], own, [])) for each, own in ((first, [0, 1, 2]),
              (second, [0, 1, 3]))]  # fmt: skip
    facts = facts_of(placed, [], np.array([1, 2, 3, 4, 0.0]), np.array([0, 1, 0, 0, 1.0]), 4)
    assert dict(zip(FACTS, facts.tolist(), strict=True)) == {
        "clients": [3, 3, 0, 0, 3], "paused": [1, 0, 1, 0, 0], "channels": [3, 0, 0, 0, 3],
        "waiting": [10, 2, 3, 4, 0], "partial": [0, 1, 0, 0, 1],
    }  # fmt: skip


def test_what_has_no_room_has_no_facts() -> None:
    told = sample(topic("t", channel("c", client_count=2)))
    facts = facts_of([(told, NodeRows(told, [], [0, -1], []))], [], np.array([5.0]), np.zeros(1))
    assert facts.tolist() == [[0], [0], [0], [5], [0]]
    assert facts_of([], [], np.empty(0), np.empty(0)).shape == (len(FACTS), 0)


def test_channels_of_a_node_that_does_not_answer_wait_without_consumers() -> None:
    last = sample(topic("t", channel("c", client_count=2), channel("d", client_count=2)))
    depths = np.array([1, 7, np.nan])  # nothing waits in d there, so that it is not kept
    facts = facts_of([], [NodeRows(last, [], [0, 1, 2], [])], depths, np.array([1, 1, 0.0]))
    assert dict(zip(FACTS, facts[:, 0].tolist(), strict=True)) == {
        "clients": 0, "paused": 0, "channels": 1, "waiting": 8, "partial": 1,
    }  # fmt: skip


def test_members_of_groups_are_not_those_of_their_topic() -> None:
    groups = [{"group_name": "g", "client_count": 2}, {"group_name": "h"}]
    told = sample(topic("t", consumer_groups=groups))
    facts = facts_of([(told, NodeRows(told, [], [0, 1, 2], []))], [], np.zeros(3), np.zeros(3))
    assert facts[0].tolist()[:2] == [0, 2]
    assert np.isnan(facts[0, 2])


def lost(node: str, at: float) -> LostNode:
    last = sample(topic("t", depth=7))
    return LostNode(node, at, last, NodeRows(last, [0], [0], []))


def test_a_node_that_stays_away_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(1, 1)), ("b", busy(1, 160))])
    history.take(FIRST + GIVEN_UP_S - 1, [("a", busy(1, 1))])
    assert newest(history)["depth"] == 161
    ((lost),) = history.lost
    assert (lost.node, lost.at, lost.until) == ("b", FIRST, FIRST + GIVEN_UP_S)
    history.take(FIRST + GIVEN_UP_S, [("a", busy(1, 1))])
    assert (newest(history)["depth"], list(history.lost)) == (1, [])
    (given_up,) = history.lost.given_up
    assert (given_up.node, given_up.depth) == ("b", 160)
    assert "gives up b, silent for 3600 s: 160 messages that waited there" in caplog.text
    history.take(FIRST + 2 * GIVEN_UP_S, [("a", busy(1, 1))])
    assert history.lost.given_up == []


def test_nodes_that_answer_have_room_before_those_that_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_module, "SUMS_MAX", 6)
    history = History(10)
    history.take(FIRST, [("a", sample(topic("t", depth=1))), ("b", sample(topic("u", depth=1)))])
    for number in (1, 2, 3):
        history.take(FIRST + 10 * number, [("a", sample(*map(topic, "tvwx")))])
    assert list(history.lost) == []
    assert history.series(Key("x")) is not None


def test_there_is_a_bound_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_module, "LOST_MAX", 2)
    nodes = LostNodes()
    for number, name in enumerate("abc"):
        nodes.add(lost(name, FIRST + number))
    nodes.give_up(FIRST + 10, is_full=False)
    assert [each.node for each in nodes] == ["b", "c"]
    assert [(each.node, each.dropped_at, each.depth) for each in nodes.given_up] == [
        ("a", FIRST + 10, 7)
    ]
    nodes.give_up(FIRST + 20, is_full=True)
    assert [each.node for each in nodes] == ["c"]


def test_a_node_that_answers_again_is_neither_lost_nor_given_up() -> None:
    nodes = LostNodes()
    nodes.add(lost("a", FIRST))
    assert "a" in nodes
    nodes.back(FIRST + 1, "a")
    assert "a" not in nodes
    nodes.add(lost("b", FIRST))
    nodes.give_up(FIRST + GIVEN_UP_S, is_full=False)
    nodes.back(FIRST + GIVEN_UP_S + 1, "b")
    assert nodes.given_up == []


def test_when_a_row_was_partial() -> None:
    nodes = LostNodes()
    nodes.add(lost("a", FIRST))
    nodes.mark(FIRST + 10, "a", np.array([3]))
    nodes.mark(FIRST + 20, "a", np.array([3]))
    nodes.back(FIRST + 30, "a")
    times = [FIRST, FIRST + 10, FIRST + 20, FIRST + 30]
    assert nodes.partial(3, times) == [0, 1, 1, 0]
    assert nodes.partial(4, times) == [0, 0, 0, 0]
