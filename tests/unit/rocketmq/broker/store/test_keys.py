"""The keys of stored messages, and searches by them: right after messages came, after crashes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.store import key_index, message_keys
from penstock.rocketmq.broker.store.key_index import Found, KeyIndex
from penstock.rocketmq.broker.store.message_keys import hashes_of
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import message, properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag
from penstock.storage.batch import Batch, Dialect
from penstock.storage.cache import BlockCache
from penstock.storage.log import Log, LogOptions
from penstock.storage.queues import hash_index
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk
from tests.unit.rocketmq.broker.filling import until


@pytest.mark.parametrize("length", [*range(40), 56, 63, 64, 200])
def test_the_same_hashes(length: int) -> None:
    keys = [os.urandom(length) for _ in range(20)]
    table = np.frombuffer(b"".join(keys), np.uint8).reshape(20, length)
    for columns in (slice(0, None), slice(5, 26)):  # of a wider table, too
        wanted = [xxh32_intdigest(key[columns]) for key in keys]
        assert hashes_of(table[:, columns]).tolist() == wanted


IPV4 = Host(bytes((127, 0, 0, 1)), 10911)
IPV6 = Host(bytes(15) + b"\1", 10911)


def frame(
    text: str, *, topic: str = "T", body: bytes = b"body", host: Host = IPV4, sys_flag: int = 0
) -> bytes:
    """A stored message with these properties."""
    return message.encode(
        StoredMessage(topic, body, 0, 0, 0, host, IPV4, 1, 2, text, sys_flag=sys_flag)
    )


def batch(
    frames: list[bytes], first: int = 0, dialect: int = Dialect.ROCKETMQ, at_ms: int = 0
) -> Batch:
    table = np.cumsum([0, *map(len, frames)], dtype=np.uint32)
    return Batch.build(
        first, first, at_ms * MILLISECOND, len(frames), 0, frames, table=table, dialect=dialect
    )


def text(**values: str) -> str:
    return properties.join(values)


SAMPLES: Mapping[str, tuple[bytes, list[bytes]]] = {
    "none": (frame(""), []),
    "unique": (frame(text(UNIQ_KEY="A1")), [b"A1"]),
    "words": (frame(text(KEYS="a  b c ")), [b"a", b"b", b"c"]),
    "both": (frame(text(KEYS="k", TAGS="t", UNIQ_KEY="A1")), [b"A1", b"k"]),
    "unended": (frame("TAGS\x01t\x02UNIQ_KEY\x01A1"), [b"A1"]),
    "longer names": (frame(text(MY_KEYS="x", X_UNIQ_KEY="y", KEYS="k")), [b"k"]),
    "longer names first": (frame(text(X_UNIQ_KEY="y", UNIQ_KEY="A1")), [b"A1"]),
    "only longer names": (frame(text(MY_KEYS="x", X_UNIQ_KEY="y")), []),
    "empty": (frame("KEYS\x01\x02UNIQ_KEY\x01\x02"), []),
    "blank": (frame("KEYS\x01  \x02"), []),
    "in the body": (frame(text(TAGS="t"), body=b"\x02KEYS\x01x\x02UNIQ_KEY\x01y\x02"), []),
    "IPv6": (frame(text(KEYS="k"), host=IPV6), [b"k"]),
    "long topic": (frame(text(KEYS="k"), topic="t" * 200), [b"k"]),
    "half": (frame(text(KEYS="k"), sys_flag=SysFlag.PREPARED), [b"k"]),
    "rolled back": (frame(text(KEYS="k"), sys_flag=SysFlag.ROLLBACK), []),
    "no ASCII": (frame(text(KEYS="Schlüssel")), ["Schlüssel".encode()]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_keys_of_one_message(name: str) -> None:
    stored, wanted = SAMPLES[name]
    assert message_keys.keys(stored) == wanted
    assert rows([batch([stored])], 0) == [(message_keys.hash_of(key), 0) for key in wanted]


def rows(batches: list[Batch], first: int) -> list[tuple[int, int]]:
    """The rows of the index: the hash of a key, and the place of its message."""
    found = zip(*message_keys.rows(batches, first), strict=True)
    return [row for row in found if row[0] != message_keys.hash_of(b"")]


def test_rows_of_batches_count_from_the_first_offset() -> None:
    wanted = [
        (message_keys.hash_of(key), number + 100)
        for number, (_, keys) in enumerate(SAMPLES.values())
        for key in keys
    ]
    foreign = batch([frame(text(KEYS="k"))], 50, Dialect.NSQ)
    later = batch([stored for stored, _ in SAMPLES.values()], 150)
    assert rows([foreign, later], 50) == wanted


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1)


@given(st.dictionaries(WORDS, WORDS), st.lists(WORDS), st.booleans(), st.binary())
def test_what_the_properties_say_is_found(
    others: dict[str, str], words: list[str], ended: bool, body: bytes
) -> None:
    joined = properties.join({**others, "KEYS": " ".join(words)})
    stored = frame(joined if ended else joined.removesuffix("\x02"), body=body)
    unique = others.get("UNIQ_KEY")
    wanted = [word.encode() for word in ([unique] if unique else []) + words]
    assert message_keys.keys(stored) == wanted
    assert rows([batch([stored])], 0) == [(message_keys.hash_of(key), 0) for key in wanted]


def alike(frames: list[bytes], first: int) -> Batch:
    return Batch.build(
        first, first, 0, len(frames), len(frames[0]), frames, dialect=Dialect.ROCKETMQ
    )


def listed(batches: list[Batch], first: int) -> list[tuple[int, int]]:
    """The rows as they are when each message is looked at by itself."""
    return [
        (message_keys.hash_of(key), number - first)
        for each in batches
        for number in range(each.first_offset, each.next_offset)
        for key in message_keys.keys(bytes(each.slice(number, number + 1)))
    ]


TEXTS = {
    "unique": "UNIQ_KEY\x01A%02d\x02TAGS\x01t\x02",
    "unended": "TAGS\x01t\x02UNIQ_KEY\x01A%02d",
    "both": "KEYS\x01k%02d\x02UNIQ_KEY\x01A%02d\x02",
    "none": "TAGS\x01t%02d\x02",
    "longer name": "X_KEYS\x01k%02d\x02KEYS\x01k\x02",
    "words": "KEYS\x01a %02d\x02",
    "a tag that differs": "TAGS\x01t%02d\x02UNIQ_KEY\x01A%02d\x02",
}


@pytest.mark.parametrize("name", TEXTS)
def test_many_messages_of_one_layout(name: str) -> None:
    texts = [TEXTS[name].replace("%02d", f"{number:02}") for number in range(60)]
    frames = [frame(each, body=f"{number:04}".encode()) for number, each in enumerate(texts)]
    batches = [alike(frames[:40], 100), alike(frames[40:41], 140), alike(frames[41:], 141)]
    assert rows(batches, 90) == listed(batches, 90)
    damaged = [alike(frames[:20], 0), alike(frames[20:], 1000)]  # what lay between them is lost
    assert rows(damaged, 0) == listed(damaged, 0)


ODD = {
    "another property": frame("KEYS\x01kk\x02TAG\x01A\x02"),
    "a property inside of the value": frame("TAG\x01\x02KEYS\x01kk\x02"),
    "two words": frame("TAG\x01A\x02KEYS\x01k k\x02").replace(b"k k", b"k "[:2]),
    "a longer topic": frame("TAG\x01A\x02KEYS\x01kk\x02", topic="TT", body=b"bod"),
    "rolled back": frame("TAG\x01A\x02KEYS\x01kk\x02", sys_flag=SysFlag.ROLLBACK),
}


@pytest.mark.parametrize("place", [0, 7, 29])
@pytest.mark.parametrize("name", ODD)
def test_one_that_is_otherwise_in_the_middle(name: str, place: int) -> None:
    frames = [frame(f"TAG\x01A\x02KEYS\x01{number:02}\x02") for number in range(30)]
    size = len(frames[0])
    frames[place] = ODD[name][:size].ljust(size, b"\x02")
    batches = [alike(frames, 0)]
    assert rows(batches, 0) == listed(batches, 0)


# --- the index ------------------------------------------------------------------------------------


class Topics:
    """Logs on a disk in memory, and an index of them."""

    def __init__(self) -> None:
        self.disk = FaultyDisk("/data")
        self.logs: dict[str, Log] = {}
        self.keys = self._index()

    def _index(self) -> KeyIndex:
        keys = KeyIndex(self.disk, self.logs.get, SYSTEM_CLOCK)
        for topic in self.logs:
            keys.note(topic)
        return keys

    def log(self, topic: str) -> Log:
        if topic not in self.logs:
            options = LogOptions(max_bytes_per_file=20_000, mem_queue_size=100)
            self.logs[topic] = open_log(self.disk, f"/data/{topic}", 0, BlockCache(), options)[0]
        return self.logs[topic]

    def store(self, topic: str, *texts: str, at_ms: int = 0, dialect: int = 1) -> None:
        """Append messages with these properties, all with one write."""
        log = self.log(topic)
        first = log.next_offset
        made = batch([frame(text, topic=topic) for text in texts], first, dialect, at_ms)
        log.append([made])
        self.keys.appended(topic, [made])

    def crash(self) -> None:
        """A kill, and a new process."""
        self.disk.crash("written")
        names = list(self.logs)
        self.logs.clear()
        for name in names:
            self.log(name)
        self.keys = self._index()

    async def find(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = 1 << 50, count: int = 64,
        nbytes: int = 1 << 24,
    ) -> Found:  # fmt: skip
        return await self.keys.find(topic, key, begin_ms, end_ms, count, nbytes)

    async def texts(self, topic: str, key: str, *args: int, **options: int) -> list[str]:
        """The properties of what is found."""
        found = await self.find(topic, key, *args, **options)
        return [message.decode(each)[0].properties for each in found.frames]


@pytest.fixture
def topics() -> Topics:
    return Topics()


def named(words: str, unique: str = "") -> str:
    return properties.join({"KEYS": words, "UNIQ_KEY": unique})


async def test_a_message_is_found_by_each_of_its_keys_right_after_it_was_stored(
    topics: Topics,
) -> None:
    topics.store("T", named("order pay", "A1"), at_ms=5)
    for key in ("order", "pay", "A1"):
        assert await topics.texts("T", key) == [named("order pay", "A1")]
    for key in ("orde", "order pay", "", "a1", "\udc80"):
        assert await topics.texts("T", key) == []
    assert await topics.texts("other", "order") == []
    found = await topics.find("T", "order")
    assert (found.last_offset, found.last_ms) == (0, 5)


WORD = st.sampled_from(["Aa", "BB", "k"])
CHANGES = st.one_of(
    st.tuples(st.just("store"), st.lists(st.sets(WORD), min_size=1, max_size=3), st.integers(0, 9),
              st.sampled_from([Dialect.ROCKETMQ, Dialect.ROCKETMQ, Dialect.NSQ])),
    st.tuples(st.just("find"), WORD, st.integers(-1, 9), st.integers(-1, 9)),
    st.tuples(st.just("crash"), st.none(), st.none(), st.none()),
)  # fmt: skip


@pytest.mark.parametrize("is_one_hash", [False, True])
@given(st.lists(CHANGES, max_size=25), st.sampled_from([0, 1, 3, 64]))
def test_what_is_found_is_what_a_list_would_hold(
    is_one_hash: bool, history: list[tuple[str, Any, Any, Any]], count: int
) -> None:
    """The newest of these keys and times, the oldest first, whatever the system's time was."""

    async def play() -> None:
        topics = Topics()
        model: list[tuple[set[str], int, str]] = []
        assert await topics.find("T", "k") == Found([], -1, 0)
        for kind, first, second, third in history:
            if kind == "crash":
                topics.crash()
            elif kind == "find":
                found = await topics.texts("T", first, second, third, count=count)
                wanted = [text for words, at_ms, text in model
                          if first in words and second <= at_ms <= third]  # fmt: skip
                assert found == (wanted[-count:] if count else [])
            else:
                texts = [named(" ".join(words), f"{len(model)}-{number}")
                         for number, words in enumerate(first)]  # fmt: skip
                topics.store("T", *texts, at_ms=second, dialect=third)
                if third == Dialect.ROCKETMQ:
                    model += [(words, second, text)
                              for words, text in zip(first, texts, strict=True)]  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        if is_one_hash:
            patch.setattr(message_keys, "hash_of", lambda key: 7)
        asyncio.run(play())


async def test_an_answer_has_its_size_and_any_times(topics: Topics) -> None:
    wanted = [named("k", f"A{number}") for number in range(20)]
    for each in wanted:
        topics.store("T", each)
    size = len(frame(wanted[-1], topic="T"))
    assert await topics.texts("T", "k", nbytes=3 * size) == wanted[-3:]
    assert await topics.texts("T", "k", nbytes=1) == wanted[-1:]
    assert len(await topics.texts("T", "k", -(1 << 63), (1 << 63) - 1)) == 20


async def test_keys_of_one_hash_are_told_apart(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_keys, "hash_of", lambda key: 7)
    topics.store("T", named("Aa"), named("BB"), named("Aa BB", "C"))
    assert await topics.texts("T", "Aa") == [named("Aa"), named("Aa BB", "C")]
    assert await topics.texts("T", "none") == []
    monkeypatch.setattr(key_index, "CANDIDATES_MAX", 2)
    assert await topics.texts("T", "Aa") == [named("Aa BB", "C")]


async def test_the_task_indexes_what_is_stored_and_what_the_last_process_did_not(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 50)
    for _ in range(2):
        topics.store("T", *[named(f"k{number}") for number in range(300)])
    topics.crash()
    topics.keys.start()
    for number in range(40):
        topics.store("T", *[named(f"k{number}")] * 5)
        topics.store("U", named(f"k{number}"))
    await until(lambda: topics.disk.paths(".keys"))
    assert len(await topics.texts("T", "k5")) == 7
    assert len(await topics.texts("U", "k0")) == 1
    await topics.keys.close()
    assert {os.path.dirname(path) for path in topics.disk.paths(".keys")} == {"/data/T", "/data/U"}
    topics.crash()
    assert len(await topics.texts("T", "k39")) == 7
    assert len(await topics.texts("U", "k0")) == 1


async def test_what_the_log_has_dropped_is_not_found(topics: Topics) -> None:
    for number in range(100):
        topics.store("T", *[named(f"k{number % 10}")] * 5)
    assert len(await topics.texts("T", "k3")) == 50
    log = topics.log("T")
    log.trim(400, 1 << 62, Retention())
    assert 0 < log.start_offset <= 400
    left = await topics.find("T", "k3")
    assert 0 < len(left.frames) < 50
    topics.store("T", named("k3"))
    assert len((await topics.find("T", "k3")).frames) == len(left.frames) + 1


async def test_a_damaged_file_is_made_again(
    topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 20)
    monkeypatch.setattr(hash_index, "FILE_BYTES", 400)
    for number in range(60):
        topics.store("T", *[named(f"k{number % 10}")] * 5)
    assert len(await topics.texts("T", "k3")) == 30
    path = topics.disk.paths(".keys")[1]
    topics.disk.flip(path, 900)
    assert len(await topics.texts("T", "k3")) == 30
    assert "is damaged; making it again from there" in caplog.text
    caplog.clear()
    assert len(await topics.texts("T", "k3")) == 30
    assert not caplog.text


async def test_a_full_disk_is_told_once_and_the_index_goes_on_afterwards(
    topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 20)
    monkeypatch.setattr(key_index, "_RETRY_S", 0.001)
    topics.store("T", *[named(f"k{number}") for number in range(50)])
    topics.disk.fail("append", within=".keys", times=3)
    topics.keys.start()
    await until(lambda: any(map(topics.disk.content, topics.disk.paths(".keys"))))
    assert len([r for r in caplog.records if "failed to index the keys" in r.getMessage()]) == 1
    assert len(await topics.texts("T", "k3")) == 1
    await topics.keys.close()


async def test_a_failing_close_is_told(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topics.store("T", named("k"))
    await topics.texts("T", "k")
    topics.disk.fill()
    await topics.keys.close()
    assert "failed to write the key index" in caplog.text


async def test_rows_of_many_topics_do_not_pile_up_in_memory(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "PENDING_MAX", 20)
    monkeypatch.setattr(key_index, "PAUSE_S", 0)
    topics.keys.start()
    for number in range(60):
        topics.store(f"T{number}", named("k"))
    await until(lambda: len(topics.disk.paths(".keys")) >= 40)
    await topics.keys.close()
    topics.crash()
    for number in range(0, 60, 7):
        assert len(await topics.texts(f"T{number}", "k")) == 1


async def test_nothing_is_left_to_write_when_the_last_chunk_was_just_full(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 5)
    monkeypatch.setattr(key_index, "PENDING_MAX", 20)
    topics.keys.start()
    for number in range(10):
        topics.store("T", *[named(f"k{number}")] * 5)
    await until(lambda: bool(topics.disk.paths(".keys")))
    topics.store("T", named("last"))
    for _ in range(3):
        await asyncio.sleep(0.02)
        topics.store("T", named("last"))
    await topics.keys.close()
    topics.crash()
    assert len(await topics.texts("T", "last")) == 4
    assert len(await topics.texts("T", "k0")) == 5


async def test_a_disk_that_keeps_nothing_is_an_error(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 5)
    monkeypatch.setattr(topics.disk, "read_file", lambda path: b"rubbish")
    topics.store("T", *[named("k")] * 5)
    with pytest.raises(StorageError, match="is damaged"):
        await topics.find("T", "k")


async def test_a_deleted_topic_is_forgotten(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.store("T", named("k", "first"))
    assert len(await topics.texts("T", "k")) == 1
    topics.logs.pop("T").delete()
    assert await topics.texts("T", "k") == []
    topics.keys.deleted("T")
    topics.store("T", named("k", "second"))
    assert await topics.texts("T", "k") == [named("k", "second")]
    topics.logs.pop("T").delete()
    await topics.keys.close()
    assert caplog.text == ""


async def test_a_search_leaves_the_loop_to_others(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "SLICE_NS", 0)
    monkeypatch.setattr(message_keys, "hash_of", lambda key: 7)
    for number in range(50):
        topics.store("T", named(f"k{number}"))
    turns = 0
    searching = asyncio.ensure_future(topics.texts("T", "k0"))
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(await searching) == 1
    assert turns >= 50


@pytest.mark.parametrize(
    ("limit", "told"),
    [("SEARCH_S", "was given up"), ("CATCH_UP_S", "the key index of T lacks its newest 1 message")],
)
async def test_a_search_that_takes_too_long_gives_what_it_has(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    limit: str, told: str,
) -> None:  # fmt: skip
    topics.store("T", named("k"))
    if limit == "SEARCH_S":
        await topics.texts("T", "k")
    monkeypatch.setattr(key_index, limit, -1)
    with caplog.at_level(logging.WARNING):
        assert (await topics.find("T", "k")).frames == []
    assert told in caplog.text
