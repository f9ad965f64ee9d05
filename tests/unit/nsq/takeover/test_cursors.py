"""What the cursor journal of an imported topic says."""

from __future__ import annotations

from penstock.broker.progress import (
    ChannelRecord,
    Progress,
    Record,
    TopicRecord,
    encode_record,
)
from penstock.nsq.takeover.cursors import Queued, records


def queued(*ranges: tuple[int, int, int]) -> Queued:
    held = Queued()
    for first, next_, attempts in ranges:
        held.add(first, next_, attempts)
    return held


def channel(
    name: str, cursor: int, head: int, *, unfinished: object = (), skips: object = ()
) -> ChannelRecord:
    return ChannelRecord(name, cursor, head, list(unfinished), list(skips), False, [], [])  # type: ignore[call-overload]


def before(*found: Record) -> Progress:
    return Progress.replay(encode_record(record) for record in found)


def test_a_channel_skips_what_it_had_not_and_requeues_what_was_delivered() -> None:
    held = queued((0, 4, 0), (4, 6, 2), (6, 7, 2), (7, 8, 3), (10, 12, 0))
    assert records(before(), {"c": held, "d": Queued()}, 0, 12, start=0, paused=False) == [
        TopicRecord(12, False),
        channel("c", 0, 12, unfinished=[(4, 7, 2), (7, 8, 3)], skips=[(4, 10)]),
        channel("d", 0, 12, skips=[(0, 12)]),
    ]


def test_a_topic_without_channels_keeps_its_backlog_for_the_first() -> None:
    assert records(before(), {}, 0, 0, start=0, paused=False) == [TopicRecord(0, False)]


def test_channels_without_messages_start_at_the_backlog() -> None:
    found = records(before(), {"c": Queued()}, 0, 0, start=0, paused=True)
    assert found == [TopicRecord(0, True), channel("c", 0, 0)]


def test_our_own_channels_go_on_and_pass_over_what_is_not_theirs() -> None:
    known = before(
        TopicRecord(90), channel("a", 70, 90, unfinished=[(60, 61, 1)], skips=[(80, 81)])
    )
    found = records(known, {"b": queued((100, 110, 0))}, 100, 110, start=50, paused=False)
    assert found == [
        TopicRecord(110, False),
        channel("a", 70, 110, unfinished=[(60, 61, 1)], skips=[(80, 81), (100, 110)]),
        channel("b", 100, 110),
    ]


def test_our_own_backlog_goes_to_the_first_channels() -> None:
    found = records(before(TopicRecord(20)), {"b": queued((50, 55, 0))}, 50, 55, start=0,
                    paused=False)  # fmt: skip
    assert found == [TopicRecord(55, False), channel("b", 20, 55)]
    found = records(before(), {"b": Queued()}, 50, 50, start=30, paused=False)
    assert found == [TopicRecord(30, False), channel("b", 30, 30)]


def test_a_paused_topic_holds_its_backlog_back() -> None:
    known = before(TopicRecord(20, True), channel("a", 10, 20))
    assert records(known, {}, 50, 50, start=0, paused=True) == [
        TopicRecord(20, True),
        channel("a", 10, 20),
    ]


def test_a_topic_that_go_has_unpaused_gives_its_backlog_to_new_channels_too() -> None:
    known = before(TopicRecord(20, True), channel("a", 10, 20))
    found = records(known, {"b": queued((50, 51, 0))}, 50, 51, start=0, paused=False)
    assert found == [
        TopicRecord(51, False),
        channel("a", 10, 51, skips=[(50, 51)]),
        channel("b", 20, 51),
    ]
