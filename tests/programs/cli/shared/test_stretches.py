"""Reading a log stretch by stretch."""

from __future__ import annotations

import pytest
from msgspec import structs

from penstock.cli.shared.stretches import NoLog, OffsetGone, no_log, stretches
from penstock.core.errors import PenstockError
from penstock.log_api.errors import LogError
from penstock.log_api.log_client import Fetched, LogClient
from penstock.testing.daemons import run_nsqd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import ask, consume, kill_letters, make, publish


def test_any_part_of_a_log_in_whatever_batches_it_lies() -> None:
    bodies = [b"%d" % number * (number % 7 + 1) for number in range(40)]
    with run_nsqd() as nsqd, LogClient(nsqd.http) as log:
        make(nsqd, "t")
        for first in range(0, 40, 8):
            publish(nsqd, "t", bodies[first : first + 8])
        for first, end in ((0, 40), (3, 5), (7, 9), (39, 40), (5, 5)):
            found = [each for part in stretches(log, "t", first, end) for each in part.messages()]
            assert [each.offset for each in found] == list(range(first, end))
            assert [each.body for each in found] == bodies[first:end]
        ids = [each["id"] for each in ask(nsqd, "GET", "/topic/peek?topic=t")["messages"]]
        whole = [each for part in stretches(log, "t", 0, 40) for each in part.messages()]
        assert [each.id for each in whole] == ids
        assert all(each.origin is None for each in whole)


def test_a_dead_letter_says_where_it_came_from() -> None:
    with run_nsqd() as nsqd, LogClient(nsqd.http) as log:
        kill_letters(nsqd, "t", "c", [b"x", b"y"])
        found = [each for part in stretches(log, "t.dead", 0, 2) for each in part.messages()]
        shown = ask(nsqd, "GET", "/deadletters?topic=t.dead")["messages"]
    assert [each.origin and structs.asdict(each.origin) for each in found] == [
        each["origin"] for each in shown
    ]
    assert [each.body for each in found] == [b"x", b"y"]


def test_what_retention_has_let_go() -> None:
    with run_nsqd("--max-bytes-per-file=4096", "--sync-timeout=10ms") as nsqd:
        make(nsqd, "t", "c")
        for _ in range(4):
            publish(nsqd, "t", [b"x" * 3000] * 4)
        consume(nsqd, "t", "c", 16)
        with LogClient(nsqd.http) as log:
            # All segments go but the newest, one after the other.
            wait_until(lambda: log.offsets("t").queues[0].start == 12, nsqd.log)
            with pytest.raises(OffsetGone, match=r"^offset 0 of topic 't' is gone .* holds 12 "):
                list(stretches(log, "t", 0, 16))


class Damaged(LogClient):
    """A node, or what is between, that sends nonsense."""

    def fetch(self, *_: object, **__: object) -> Fetched:
        return Fetched(b"nonsense" * 20, 0, 9)


def test_damaged_data_is_said_in_one_line() -> None:
    with pytest.raises(PenstockError, match=r"^127\.0\.0\.1:1 sent damaged data of topic 't'"):
        list(stretches(Damaged("127.0.0.1:1"), "t", 0, 9))


def test_another_nsqd_has_no_log() -> None:
    assert isinstance(no_log(LogError("n:1", 404, "NOT_FOUND")), NoLog)
    refused = LogError("n:1", 400, "INVALID_ARG_QUEUE")
    assert no_log(refused) is refused
