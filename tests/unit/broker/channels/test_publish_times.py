from __future__ import annotations

from penstock.broker.channels.consumer import Delivery
from penstock.broker.channels.publish_times import _FEW, PublishTimes
from penstock.storage.batch import Batch


def batch(first: int, count: int, time: int) -> Batch:
    return Batch.build(first, 1000 + first, time, count, 1, [b"x" * count])


def learnt(times: PublishTimes, *batches: Batch) -> PublishTimes:
    times.learn([Delivery(each, each.first_offset, each.next_offset, 1) for each in batches])
    return times


def test_a_range_over_several_batches() -> None:
    times = learnt(PublishTimes(list), batch(0, 3, 70), batch(3, 2, 80), batch(5, 5, 90))
    assert list(times.of(0, 3)) == [(70, 3)]
    assert list(times.of(1, 2)) == [(70, 1)]
    assert list(times.of(2, 7)) == [(70, 1), (80, 2), (90, 2)]


def test_what_is_not_known_is_left_out() -> None:
    times = learnt(PublishTimes(list), batch(10, 3, 70), batch(20, 2, 80))
    assert list(times.of(0, 10)) == list(times.of(13, 20)) == list(times.of(22, 30)) == []
    assert list(times.of(0, 100)) == [(70, 3), (80, 2)]


def test_a_batch_delivered_again_is_known_once() -> None:
    first, second, third = batch(0, 3, 70), batch(3, 2, 80), batch(5, 5, 90)
    times = learnt(PublishTimes(list), second, third, third, first, second)
    assert len(times) == 3
    assert list(times.of(0, 10)) == [(70, 3), (80, 2), (90, 5)]


def test_what_is_not_in_flight_any_more_is_forgotten() -> None:
    in_flight: list[tuple[int, int]] = [(7, 8), (11, 14)]
    times = PublishTimes(lambda: in_flight)
    for number in range(_FEW):
        learnt(times, batch(2 * number, 2, number))
    assert len(times) == _FEW
    last = 2 * _FEW
    in_flight.append((last, last + 2))
    learnt(times, batch(last, 2, 5000))
    assert len(times) == 4
    assert list(times.of(7, 8)) == [(3, 1)]
    assert list(times.of(11, 14)) == [(5, 1), (6, 2)]
    assert list(times.of(last, last + 2)) == [(5000, 2)]


def test_clear() -> None:
    times = learnt(PublishTimes(list), batch(0, 3, 70))
    times.clear()
    assert len(times) == 0
