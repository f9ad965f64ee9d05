"""What a primary answers, when, how much; requests and answers, whole and spoiled."""

from __future__ import annotations

import pytest

from penstock.core.units import MILLISECOND, SECOND
from penstock.replication.feed import NBYTES_MAX, Feed
from penstock.replication.messages import (
    VERSION,
    Batches,
    Diverged,
    End,
    Fetch,
    File,
    FollowerTopic,
    Gone,
    Hello,
    ReplicationError,
    decode_fetch,
    decode_parts,
    encode_fetch,
    encode_part,
)
from penstock.replication.pace import BUSY_PER_S, GENTLE_NBYTES, WINDOW_NS, Pace
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
    assert not Feed(primary.source, copy.request("history", 1, 100)).has_news()
    for change in (lambda: primary.publish("t", b"2"), lambda: primary.publish("u", b"1"),
                   lambda: primary.files.update({"nsqd.dat": b"more"}),
                   lambda: primary.broker.delete_topic("u"),
                   lambda: primary.broker.topic("t").channel("c")):  # fmt: skip
        change()
        assert Feed(primary.source, copy.request("history", 1, 100)).has_news()
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
    assert parts[-1].head == End(HELLO.run, 2, True)


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
        (FollowerTopic("t", base, 3, 0, "", -1), Diverged("t", base, 2)),
        (FollowerTopic("t", base, 2, 12345, "", -1), Diverged("t", base, 2)),
        (FollowerTopic("t", base + 1, 2, 0, "", -1), Gone("t", base + 1)),
        (FollowerTopic("v", 5, 2, 0, "", -1), Gone("v", 5)),
    ):
        fetch.held = [held]
        heads = [each.head for each in decode_parts(b"".join(Feed(primary.source, fetch).answer()))]
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
    fetch.held = [FollowerTopic(f"none-{number}", number, 2, 0, "", -1) for number in range(5000)]
    parts = list(decode_parts(answer := b"".join(Feed(primary.source, fetch).answer())))
    assert len(answer) < 2000
    assert isinstance(parts[-1].head, End)
    assert parts[-1].head.more


def test_a_request_with_places_where_nothing_is_gets_an_answer() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    base = topic.log.id_base
    for held in (
        FollowerTopic("t", base, -(2**63), 2**64 - 1, "0", 2**63, 2**64 - 1),
        FollowerTopic("t", base, 1, 0, "0", 7),  # within a frame
        FollowerTopic("t", 0, 0, 0, "\0", -(2**63)),
    ):
        fetch = copy.request("history", 1, -5)
        fetch.held = [held]
        Feed(primary.source, fetch).has_news()
        parts = list(decode_parts(b"".join(Feed(primary.source, fetch).answer())))
        assert isinstance(parts[-1].head, End)


# --- Requests and answers, whole and spoiled -----------------------------------------------------


FETCH = Fetch(
    VERSION, 3, "h", 1, "run", [FollowerTopic("t", 7, 2, 9, "0", 40)], {"a": 1}, 100, "h:1"
)
ANSWER = b"".join([
    *encode_part(Batches("t", 7, 0, 2, 0), b"abc", memoryview(b"def")),
    *encode_part(End("run", 3, more=True)),
])  # fmt: skip


def test_a_request_comes_as_it_was_sent() -> None:
    assert decode_fetch(encode_fetch(FETCH)) == FETCH


def test_another_version_and_another_thing_are_refused_with_the_reason() -> None:
    later = encode_fetch(Fetch(VERSION + 1, 1, "", 0, "", [], {}, 1))
    with pytest.raises(ReplicationError, match="another version of Penstock"):
        decode_fetch(later)
    with pytest.raises(ReplicationError, match="no request of a follower"):
        decode_fetch(b"GET / HTTP/1.1")


def test_an_answer_has_its_parts_in_order() -> None:
    first, last = decode_parts(ANSWER)
    assert (first.head, bytes(first.data)) == (Batches("t", 7, 0, 2, 0), b"abcdef")
    assert (last.head, bytes(last.data)) == (End("run", 3, True), b"")
    [hello, _] = decode_parts(b"".join([*encode_part(Hello("r", "h", 2, {"t": (1, 2)})),
                                        *encode_part(End("r", 1, True))]))  # fmt: skip
    assert hello.head == Hello("r", "h", 2, {"t": (1, 2)})


def test_an_answer_that_is_cut_anywhere_is_refused() -> None:
    for length in range(len(ANSWER)):
        with pytest.raises(ReplicationError):
            list(decode_parts(ANSWER[:length]))


def test_an_answer_with_any_bit_turned_is_refused() -> None:
    for bit in range(8 * len(ANSWER)):
        spoiled = bytearray(ANSWER)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ReplicationError):
            list(decode_parts(spoiled))


# --- The pace of a follower that is behind: full where nobody publishes, gentle where many do ----


NBYTES = 200
STEP_NS = 10 * MILLISECOND


class Behind:
    """A follower that takes what it gets, of a primary that publishes at a rate."""

    def __init__(self, lag: int, per_s: int, nbytes: int = NBYTES) -> None:
        self.pace, self.lag, self.now, self.head = Pace(), lag, SECOND, 0
        self.per_s, self.nbytes = per_s, nbytes

    def ask(self) -> int | None:
        """One request, ``STEP_NS`` after the one before; the room of its answer."""
        room = self.pace.room(self.now, self.head, self.lag)
        taken = min(self.lag, NBYTES_MAX if room is None else room)
        self.pace.sent(taken)
        came = self.per_s * STEP_NS // SECOND
        self.now += STEP_NS
        self.head += came
        self.lag += came * self.nbytes - taken
        return room

    def rooms(self, count: int) -> set[int | None]:
        return {self.ask() for _ in range(count)}


def test_it_is_full_where_nobody_publishes_or_few_do() -> None:
    for per_s in (0, 500):
        assert Behind(1 << 30, per_s).rooms(100) == {None}


def test_it_is_gentle_once_a_window_has_shown_that_many_publish() -> None:
    behind = Behind(1 << 30, 8000)
    assert behind.rooms(WINDOW_NS // STEP_NS) == {None}
    assert behind.rooms(100) == {GENTLE_NBYTES}
    behind.per_s = 0
    assert None in behind.rooms(2 * WINDOW_NS // STEP_NS)
    assert behind.rooms(100) == {None}


def test_a_follower_catches_up_whatever_is_published() -> None:
    for per_s in (BUSY_PER_S, 100_000, 500_000, 1_500_000):
        behind = Behind(64 << 20, per_s)
        for _ in range(10_000):
            behind.ask()
            if behind.lag <= per_s * NBYTES * STEP_NS // SECOND:
                break
        else:
            raise AssertionError(f"at {per_s} messages a second it stays behind: {behind.lag}")


def test_an_answer_holds_twice_what_came_meanwhile() -> None:
    behind = Behind(1 << 30, 500_000)
    behind.rooms(20)
    assert behind.ask() == 2 * 500_000 * NBYTES * STEP_NS // SECOND
    room = behind.ask()
    assert room is not None
    assert room < NBYTES_MAX


def test_where_more_comes_than_an_answer_holds_it_is_full() -> None:
    behind = Behind(1 << 30, 1_500_000)
    behind.rooms(20)
    assert behind.rooms(100) == {None}
