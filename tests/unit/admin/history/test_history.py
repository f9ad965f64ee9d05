from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest

from penstock.admin.history import history as history_module
from penstock.admin.history.history import FIGURES, History
from penstock.admin.history.lost import GIVEN_UP_S
from penstock.admin.history.ring import HOUR_S
from penstock.admin.history.row_numbers import Key
from penstock.admin.history.sample import Sample, look_of, sample_of
from tests.unit.admin.conftest import channel, topic

FIRST = 1_000_000.0


def sample(*topics: object) -> Sample:
    body = json.dumps({"topics": topics}).encode()
    return sample_of(msgspec.json.decode(body, type=look_of(body)))


def busy(messages: int, depth: int, *, name: str = "c", **more: int) -> Sample:
    """A topic t with one channel."""
    own = channel(name, message_count=messages, depth=depth, **more)
    return sample(topic("t", own, message_count=messages))


def newest(history: History, *key: str) -> dict[str, float]:
    series = history.series(Key(*key))
    assert series is not None
    return dict(zip(FIGURES, (values[-1] for values in series.values), strict=False))


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
    series = history.series(Key("t", "c"))
    assert series is not None
    assert series.values[FIGURES.index("in")] == [0, 1, 0, 2]


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
    series = history.series(Key("t"))
    assert series is not None
    assert (series.waiting, series.partial) == ([340, 340, 341], [0, 0, 1])
    history.take(FIRST + 30, [])
    assert newest(history)["depth"] == 341
    history.take(FIRST + 40, [("a", busy(20, 0)), ("b", busy(21, 1))])
    assert newest(history)["depth"] == 1
    series = history.series(Key())
    assert series is not None
    assert series.partial == [0, 0, 1, 1, 0]
    assert series.values[FIGURES.index("in")][-1] == 0  # what came meanwhile is no rate


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
    series = history.series(Key("t", "c", "a"))
    assert series is not None
    assert series.times == [FIRST, FIRST + 60, FIRST + 120]
    assert series.values[FIGURES.index("depth")] == [0, 6, 12]
    assert series.values[FIGURES.index("in")] == pytest.approx([0, 6, 6])
    assert history.series(Key("t", "", "a")) is not None


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    history = History(10)
    for number in range(3):
        ahead = FIRST + 86_400 + 10 * number
        samples = [("a", busy(10 * number, 3)), ("b", busy(0, 5)), ("c", busy(0, 7))]
        history.take(ahead, samples[: 3 - number] or samples)
    for number in range(8):
        history.take(FIRST + 10 * number, [("a", busy(100 * number, 3))])
    series = history.series(Key("t", "c"))
    assert series is not None
    assert series.times == [FIRST + 10 * number for number in range(8)]
    assert series.values[FIGURES.index("in")][1:] == [10] * 7
    assert series.values[FIGURES.index("depth")] == [15] * 8
    assert series.partial == [1] * 8
    part = history.series(Key("t", "c", "a"))
    assert part is not None
    assert part.times == [FIRST + 60]
    assert {each.node: each.at for each in history.lost} == {"b": FIRST, "c": FIRST}
    history.take(FIRST + GIVEN_UP_S, [("a", busy(1000, 3))])
    assert {each.node for each in history.lost.given_up} == {"b", "c"}
    assert newest(history, "t", "c")["depth"] == 3
    history.take(FIRST - 5, [("a", busy(1000, 3, name="d"))])
    assert [each.dropped_at for each in history.lost.given_up] == [FIRST - 5] * 2
    assert history.series(Key("t", "c")) is not None
    history.take(FIRST + HOUR_S + 1, [("a", busy(1000, 3, name="d"))])
    assert history.series(Key("t", "c")) is None


def test_latencies() -> None:
    def timed(value: int) -> Sample:
        latency = {"count": 1, "percentiles": [{"quantile": 0.5, "value": 1}, {"quantile": 0.99,
                   "value": value}]}  # fmt: skip
        return sample(topic("t", channel("c", e2e_processing_latency=latency)))

    history = History(10)
    history.take(FIRST, [("a", busy(1, 1))])
    history.take(FIRST + 10, [("a", timed(7)), ("b", timed(9))])
    history.take(FIRST + 20, [("a", timed(0)), ("b", timed(0))])  # nothing was finished lately
    assert history.quantiles == [0.99, 0.5]
    series = history.series(Key("t", "c"))
    assert series is not None
    high, low = series.values[len(FIGURES) :]
    assert (high[1], low[1]) == (9, 1)
    assert math.isnan(high[0])
    assert math.isnan(high[2])


def test_rows_that_are_gone_for_an_hour_are_others() -> None:
    history = History(10)
    history.take(FIRST, [("a", busy(1, 1, name="old"))])
    history.take(FIRST + HOUR_S + 1, [("a", busy(1, 1, name="c"))])
    assert history.series(Key("t", "old")) is None
    history.take(FIRST + HOUR_S + 11, [("a", busy(1, 1, name="new"))])
    series = history.series(Key("t", "new"))
    assert series is not None
    assert series.times == [FIRST + HOUR_S + 11]


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
    series = history.series(Key())
    assert series is not None
    assert len(series.times) == 1
