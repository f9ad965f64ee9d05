"""What a primary answers, and when there is anything to answer."""

from __future__ import annotations

import pytest

from penstock.replication.messages import (
    Batches,
    Diverged,
    End,
    File,
    Gone,
    Held,
    Hello,
    decode_fetch,
    decode_parts,
    encode_fetch,
)
from tests.unit.replication.pieces import HELLO, Primary, exchange, new_copy, until_whole


def test_whoever_knows_another_run_is_told_of_this_one_and_nothing_else() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    heads = [part.head for part in decode_parts(primary.answer(copy))]
    assert heads == [HELLO, End(HELLO.run, 1, True)]


def test_there_is_news_until_the_copy_is_whole_and_again_with_each_change() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    primary.files["nsqd.dat"] = b"names"
    assert until_whole(primary, copy) > 1
    assert not primary.source.has_news(copy.request("history", 1, 100))
    for change in (lambda: primary.publish("t", b"2"), lambda: primary.publish("u", b"1"),
                   lambda: primary.files.update({"nsqd.dat": b"more"}),
                   lambda: primary.broker.delete_topic("u"),
                   lambda: primary.broker.topic("t").channel("c")):  # fmt: skip
        change()
        assert primary.source.has_news(copy.request("history", 1, 100))
        until_whole(primary, copy)


def test_an_answer_has_about_as_many_bytes_as_asked_for_and_says_that_there_are_more() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", *[bytes(1000)] * 20)
    exchange(primary, copy)
    parts = list(decode_parts(primary.answer(copy, nbytes=3000)))
    [batches] = [part for part in parts if isinstance(part.head, Batches)]
    assert 1000 < len(batches.data) < 4500
    assert isinstance(batches.head, Batches)
    assert (batches.head.start, batches.head.end) == (0, 20)
    assert batches.head.nbytes_left > 15_000
    assert parts[-1].head == End(HELLO.run, 3, True)


@pytest.mark.parametrize("nbytes", [*range(2000, 3200, 100), 20_000])
def test_an_answer_says_that_there_are_more_if_the_next_batch_did_not_fit(nbytes: int) -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"first")
    until_whole(primary, copy)
    primary.publish("t", *[bytes(1000)] * 10)
    is_all = False
    while not is_all:
        answer = primary.answer(copy, nbytes)
        copy.take(answer)
        is_all = copy.topics["t"].log.append_offset == 11
        *_, end = decode_parts(answer)
        assert isinstance(end.head, End)
        assert end.head.more != is_all


def test_a_log_that_goes_on_otherwise_or_is_another_one_is_told_so() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    base = topic.log.id_base
    fetch = decode_fetch(encode_fetch(copy.request("history", 1, 1000)))
    for held, head in (
        (Held("t", base, 3, 0, "", -1), Diverged("t", base, 2)),
        (Held("t", base, 2, 12345, "", -1), Diverged("t", base, 2)),
        (Held("t", base + 1, 2, 0, "", -1), Gone("t", base + 1)),
        (Held("v", 5, 2, 0, "", -1), Gone("v", 5)),
    ):
        fetch.held = [held]
        heads = [each.head for each in decode_parts(b"".join(primary.source.answer(fetch)))]
        assert head in heads


def test_small_files_come_first_so_that_what_they_name_is_not_newer() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    primary.files["nsqd.dat"] = b"names"
    exchange(primary, copy)
    heads = [part.head for part in decode_parts(primary.answer(copy))]
    assert heads[0] == File("nsqd.dat")
    assert not any(isinstance(head, Hello) for head in heads)


def test_journals_share_the_room_of_an_answer_and_the_rest_comes_later() -> None:
    primary, copy = Primary(), new_copy()
    for number in range(20):
        topic = primary.publish(f"t{number}", b"1")
        for name in range(10):
            topic.channel(f"channel-{name}")
        primary.broker.save()
    journals = [each.journal.size for each in primary.served()]
    room = max(journals) // 2
    sizes = []
    while not copy.is_whole:
        answer = primary.answer(copy, room)
        sizes.append(len(answer))
        if (hello := copy.take(answer)) is not None:
            copy.begin_run(hello)
        assert len(sizes) < 1000
    assert max(sizes) < 2 * room < sum(journals) / 5
    for each in primary.served():
        assert copy.topics[each.name].journal.size > 10 * 50


def test_a_request_that_names_what_never_was_is_answered_within_the_room() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    until_whole(primary, copy)
    fetch = copy.request("history", 1, 1000)
    fetch.held = [Held(f"none-{number}", number, 2, 0, "", -1) for number in range(5000)]
    parts = list(decode_parts(answer := b"".join(primary.source.answer(fetch))))
    assert len(answer) < 2000
    assert isinstance(parts[-1].head, End)
    assert parts[-1].head.more


def test_a_request_with_places_where_nothing_is_gets_an_answer() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    base = topic.log.id_base
    for held in (
        Held("t", base, -(2**63), 2**64 - 1, "0", 2**63, 2**64 - 1),
        Held("t", base, 1, 0, "0", 7),  # within a frame
        Held("t", 0, 0, 0, "\0", -(2**63)),
    ):
        fetch = copy.request("history", 1, -5)
        fetch.held = [held]
        primary.source.has_news(fetch)
        primary.source.copied(fetch)
        parts = list(decode_parts(b"".join(primary.source.answer(fetch))))
        assert isinstance(parts[-1].head, End)
