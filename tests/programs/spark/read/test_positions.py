"""Where reads start and end."""

from __future__ import annotations

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import HOUR
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Offsets, Place
from penstock.spark.read.positions import offsets_at, span, starting
from penstock.spark.read.reader import restrict
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer


def settings(server: FakeLogServer, **options: str) -> Settings:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60", **options}
    return Settings.parse(given)


def filled(server: FakeLogServer, hours_ago: tuple[int, ...], queue: int = 0) -> None:
    """Ten messages at each of these times."""
    now_ns = SYSTEM_CLOCK.wall_ns()
    for hours in hours_ago:
        server.queue("t", queue).append([b"x"] * 10, now_ns - hours * HOUR)


def found(server: FakeLogServer, **options: str) -> tuple[list[int], list[int]]:
    given = settings(server, **options)
    start, end = span(given, Cluster(given).bounds())
    return list(start.values()), list(end.values())


def test_a_batch_read_takes_the_whole_log_unless_told_otherwise(server: FakeLogServer) -> None:
    filled(server, (3, 1))
    assert found(server) == ([0], [20])


def test_a_read_between_two_times_in_each_queue(server: FakeLogServer) -> None:
    filled(server, (5, 3, 1))
    filled(server, (9, 8, 7, 6, 3), queue=1)
    assert found(server, startingTimestamp="-4h", endingTimestamp="-2h") == ([10, 40], [20, 50])
    assert found(server, startingTimestamp="-4h") == ([10, 40], [30, 50])
    assert found(server, endingTimestamp="-1d") == ([0, 0], [0, 0])
    assert found(server, startingTimestamp="2999-01-01T00:00:00Z") == ([30, 50], [30, 50])


def test_times_that_are_the_wrong_way_round_are_refused(server: FakeLogServer) -> None:
    filled(server, (1,))
    with pytest.raises(OptionError, match="startingTimestamp is later than endingTimestamp"):
        found(server, startingTimestamp="-1h", endingTimestamp="-2h")


def test_a_stream_starts_at_a_time(server: FakeLogServer) -> None:
    filled(server, (3, 1))
    given = settings(server, startingTimestamp="-2h")
    place = Place("t", server.node, 0)
    assert starting(given, Cluster(given).bounds(), "latest") == {place: 10}


def test_what_came_after_the_bounds_were_asked_for_is_left_to_the_next_read(
    server: FakeLogServer,
) -> None:
    filled(server, (3,))
    given = settings(server)
    bounds = Cluster(given).bounds()
    filled(server, (1,))
    latest: Offsets = {Place("t", server.node, 0): 10}
    assert offsets_at(SYSTEM_CLOCK.wall_ns(), bounds, given) == latest


def test_a_topic_that_vanishes_meanwhile_is_named(server: FakeLogServer) -> None:
    filled(server, (3,))
    given = settings(server)
    bounds = Cluster(given).bounds()
    server.delete("t")
    with pytest.raises(SourceError, match=r"topic t \(queue 0\) on node .* no topic 't'"):
        offsets_at(0, bounds, given)


def grouped(server: FakeLogServer, **options: str) -> Settings:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60"}
    return Settings.parse({**given, "startingOffsets": "group", "group": "g", **options}, "stream")


def test_a_stream_starts_where_its_group_stands(server: FakeLogServer) -> None:
    filled(server, (3, 1))
    filled(server, (3, 1), queue=1)
    server.groups["t"] = {"g": {"0": 12}}
    given = grouped(server)
    # A queue that the group has not seen yet is read from its start.
    assert list(starting(given, Cluster(given).bounds(), "latest").values()) == [12, 0]
    server.groups["t"]["g"] = {"0": 99, "1": 3}
    server.queue("t", 1).start = 10
    assert list(starting(given, Cluster(given).bounds(), "latest").values()) == [20, 10]


def test_a_group_that_is_not_there_is_an_error_for_a_named_topic(server: FakeLogServer) -> None:
    filled(server, (3,))
    server.queue("u").append([b"x"])
    given = grouped(server)
    with pytest.raises(SourceError) as failed:
        starting(given, Cluster(given).bounds(), "latest")
    assert str(failed.value) == (
        "startingOffsets=group: topic t has no group g. Name the group that a query read with, or "
        "begin with startingOffsets=earliest or latest, which makes the group"
    )
    server.groups["t"] = {"g": {"0": 4}}
    named, every = grouped(server, topic="t,u"), grouped(server, topic="*")
    with pytest.raises(SourceError, match="topic u has no group g"):
        starting(named, Cluster(named).bounds(), "latest")
    # One of all topics may have come later.
    begins = starting(every, Cluster(every).bounds(), "latest")
    assert {place.topic: at for place, at in begins.items()} == {"t": 4, "u": 0}


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_a_start_after_the_end_is_refused_by_name(server: FakeLogServer, lossy: str) -> None:
    filled(server, (3, 1))

    def read(start: int, end: int) -> tuple[list[int], list[int]]:
        node = {"topic": "t", "nsqd_http_address": server.address, "failOnDataLoss": lossy}
        given = Settings.parse(
            node
            | {"startingOffsets": f'{{"t": {{"0": {start}}}}}'}
            | {"endingOffsets": f'{{"t": {{"0": {end}}}}}'},
            "batch",
        )
        bounds = Cluster(given).bounds()
        first, last = restrict(*span(given, bounds), bounds, given)
        return [*first.values()], [*last.values()]

    assert read(5, 5) == ([5], [5])
    with pytest.raises(OptionError) as refused:
        read(15, 5)
    assert str(refused.value) == (
        f"the read of topic t (queue 0) on node {server.node} starts at offset 15, after its end "
        "at offset 5: nothing would be read there"
    )
