"""What the log's batches hold, message by message."""

from __future__ import annotations

from msgspec import structs

from penstock.nsq.page import Origin
from penstock.nsq.stored import Stored, Stretch, as_object
from penstock.storage.batch import iter_batches
from penstock.testing.daemons import Daemon, run_nsqd
from tests.unit.cli.nodes_at_work import ask, fetched, kill_letters, make, publish

NS = 1_795_294_921_053_775_026


def letters_of(nsqd: Daemon, topic: str, first: int, next_: int) -> list[Stored]:
    (batch,) = iter_batches(fetched(nsqd, topic))
    return list(Stretch(batch, first, next_).messages())


def test_a_part_of_a_batch() -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t")
        publish(nsqd, "t", [b"a", b"bb", b"c"])
        shown = ask(nsqd, "GET", "/topic/peek?topic=t")["messages"][1:]
        found = letters_of(nsqd, "t", 1, 3)
    assert [each.body for each in found] == [b"bb", b"c"]
    assert [(each.offset, each.id) for each in found] == [(m["offset"], m["id"]) for m in shown]
    assert all(each.origin is None for each in found)


def test_a_dead_letter_says_where_it_came_from() -> None:
    with run_nsqd() as nsqd:
        kill_letters(nsqd, "t", "c", [b"x"])
        (shown,) = ask(nsqd, "GET", "/deadletters?topic=t.dead")["messages"]
        (found,) = letters_of(nsqd, "t.dead", 0, 1)
    assert found.origin is not None
    assert structs.asdict(found.origin) == shown["origin"]


def test_as_json() -> None:
    origin = Origin("orders", "bill", "4d20c5c6ea06f0d4", 5, NS)
    assert as_object(Stored(7, "4d20c5c6ea0f049a", NS, "\u00e4".encode(), origin)) == {
        "offset": 7, "id": "4d20c5c6ea0f049a", "time": "2026-11-21T21:02:01.053775Z",
        "timestamp_ns": NS, "body": "\u00e4", "origin": structs.asdict(origin),
    }  # fmt: skip
    assert as_object(Stored(7, "4d20c5c6ea0f049a", NS, b"\xff"))["body_base64"] == "/w=="
