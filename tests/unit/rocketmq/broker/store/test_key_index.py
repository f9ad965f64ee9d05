"""Searching messages by key: right after they were stored, after crashes, among many."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.store import key_index, message_keys
from penstock.rocketmq.broker.store.key_index import Found, KeyIndex
from penstock.rocketmq.protocol.messages import message, properties
from penstock.storage.batch import Batch, Dialect
from penstock.storage.cache import BlockCache
from penstock.storage.log import Log, LogOptions
from penstock.storage.queues import hash_index
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk
from tests.unit.rocketmq.broker.store.test_message_keys import batch, frame

PLENTY = 1 << 24
FOR_EVER = 1 << 50


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

    def store(self, topic: str, *texts: str, at_ms: int = 0, dialect: int = 1) -> Batch:
        """Append messages with these properties, all with one write."""
        log = self.log(topic)
        first = log.next_offset
        frames = [frame(text, topic=topic) for text in texts]
        made = batch(frames, first, dialect)
        made = Batch.build(
            first, first, at_ms * MILLISECOND, made.count, 0, frames, table=made.table,
            dialect=dialect,
        )  # fmt: skip
        log.append([made])
        self.keys.appended(topic, [made])
        return made

    def crash(self) -> None:
        """A kill, and a new process."""
        self.disk.crash("written")
        names = list(self.logs)
        self.logs.clear()
        for name in names:
            self.log(name)
        self.keys = self._index()

    async def find(
        self,
        topic: str,
        key: str,
        begin_ms: int = 0,
        end_ms: int = FOR_EVER,
        count: int = 64,
        nbytes: int = PLENTY,
    ) -> Found:
        return await self.keys.find(topic, key, begin_ms, end_ms, count, nbytes)

    async def texts(self, topic: str, key: str, *args: int, **options: int) -> list[str]:
        """The properties of what is found."""
        found = await self.find(topic, key, *args, **options)
        return [message.decode(each)[0].properties for each in found.frames]


@pytest.fixture
def topics() -> Topics:
    return Topics()


async def until(check: Callable[[], bool]) -> None:
    """Wait for the task to get so far."""
    async with asyncio.timeout(30):
        for _ in iter(check, True):
            await asyncio.sleep(0.001)


def keys(words: str, unique: str = "") -> str:
    return properties.join({"KEYS": words, "UNIQ_KEY": unique})


async def test_a_message_is_found_by_each_of_its_keys_right_after_it_was_stored(
    topics: Topics,
) -> None:
    topics.store("T", keys("order pay", "A1"), at_ms=5)
    for key in ("order", "pay", "A1"):
        assert await topics.texts("T", key) == [keys("order pay", "A1")]
    for key in ("orde", "order pay", "", "a1", "\udc80"):
        assert await topics.texts("T", key) == []
    assert await topics.texts("other", "order") == []
    found = await topics.find("T", "order")
    assert (found.last_offset, found.last_ms) == (0, 5)


async def test_the_newest_are_found_after_the_systems_time_was_set_back(topics: Topics) -> None:
    for at_ms in (1000, 9000, 1500, 2000):
        topics.store("T", keys("k", f"A{at_ms}"), at_ms=at_ms)
    found = {
        (begin, end): [properties.value_of(text, "UNIQ_KEY")
                       for text in await topics.texts("T", "k", begin, end)]
        for begin, end in ((0, 2000), (1200, 2000), (0, 9000), (1000, 1000))
    }  # fmt: skip
    assert found == {
        (0, 2000): ["A1000", "A1500", "A2000"], (1200, 2000): ["A1500", "A2000"],
        (0, 9000): ["A1000", "A9000", "A1500", "A2000"], (1000, 1000): ["A1000"],
    }  # fmt: skip


async def test_nothing_is_indexed_of_an_empty_topic(topics: Topics) -> None:
    topics.log("T")
    assert await topics.find("T", "k") == Found([], -1, 0)


async def test_the_newest_are_found_and_given_oldest_first(topics: Topics) -> None:
    for number in range(20):
        topics.store("T", keys("k", f"A{number}"))
    wanted = [keys("k", f"A{number}") for number in range(20)]
    assert await topics.texts("T", "k", count=7) == wanted[-7:]
    assert await topics.texts("T", "k", count=0) == []
    size = len(frame(wanted[-1], topic="T"))
    assert await topics.texts("T", "k", nbytes=3 * size) == wanted[-3:]
    assert await topics.texts("T", "k", nbytes=1) == wanted[-1:]


async def test_both_times_are_included(topics: Topics) -> None:
    for ms in (10, 20, 30, 40):
        topics.store("T", keys("k", f"at {ms}"), at_ms=ms)
    assert await topics.texts("T", "k", 20, 30) == [keys("k", "at 20"), keys("k", "at 30")]
    assert await topics.texts("T", "k", 21, 29) == []
    assert len(await topics.texts("T", "k", -(1 << 63), (1 << 63) - 1)) == 4
    assert await topics.texts("T", "k", 30, 20) == []


async def test_keys_of_one_hash_are_told_apart(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_keys, "hash_of", lambda key: 7)
    topics.store("T", keys("Aa"), keys("BB"), keys("Aa BB", "C"))
    assert await topics.texts("T", "Aa") == [keys("Aa"), keys("Aa BB", "C")]
    assert await topics.texts("T", "BB") == [keys("BB"), keys("Aa BB", "C")]
    assert await topics.texts("T", "none") == []
    monkeypatch.setattr(key_index, "CANDIDATES_MAX", 2)
    assert await topics.texts("T", "Aa") == [keys("Aa BB", "C")]


async def test_messages_of_nsq_have_no_keys(topics: Topics) -> None:
    topics.store("T", keys("k"), dialect=Dialect.NSQ)
    topics.store("T", keys("k", "ours"))
    assert await topics.texts("T", "k") == [keys("k", "ours")]


async def test_the_task_indexes_what_is_stored(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 50)
    topics.keys.start()
    for number in range(40):
        topics.store("T", *[keys(f"k{number}")] * 5)
        topics.store("U", keys(f"k{number}"))
    await until(lambda: len(topics.disk.paths(".keys")) > 0)
    await topics.keys.close()
    topics.crash()
    assert len(await topics.texts("T", "k39")) == 5
    assert len(await topics.texts("U", "k0")) == 1


async def test_a_start_finds_what_the_last_process_did_not_index(topics: Topics) -> None:
    topics.store("T", *[keys(f"k{number}") for number in range(300)])
    topics.store("T", *[keys(f"k{number}") for number in range(300)])
    topics.crash()
    topics.keys.start()
    topics.store("T", keys("k5"))
    assert len(await topics.texts("T", "k5")) == 3
    await topics.keys.close()
    assert topics.disk.paths(".keys")
    topics.crash()
    assert len(await topics.texts("T", "k5")) == 3


async def test_what_the_log_has_dropped_is_not_found(topics: Topics) -> None:
    for number in range(100):
        topics.store("T", *[keys(f"k{number % 10}")] * 5)
    assert len(await topics.texts("T", "k3")) == 50
    log = topics.log("T")
    log.trim(400, 1 << 62, Retention())
    assert 0 < log.start_offset <= 400
    left = await topics.find("T", "k3")
    assert 0 < len(left.frames) < 50
    topics.store("T", keys("k3"))
    assert len((await topics.find("T", "k3")).frames) == len(left.frames) + 1


async def test_a_damaged_file_is_made_again(
    topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 20)
    monkeypatch.setattr(hash_index, "FILE_BYTES", 400)
    for number in range(60):
        topics.store("T", *[keys(f"k{number % 10}")] * 5)
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
    topics.store("T", *[keys(f"k{number}") for number in range(50)])
    topics.disk.fail("append", within=".keys", times=3)
    topics.keys.start()
    await until(lambda: any(map(topics.disk.content, topics.disk.paths(".keys"))))
    assert len([r for r in caplog.records if "failed to index the keys" in r.getMessage()]) == 1
    assert len(await topics.texts("T", "k3")) == 1
    await topics.keys.close()


async def test_a_failing_close_is_told(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topics.store("T", keys("k"))
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
        topics.store(f"T{number}", keys("k"))
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
        topics.store("T", *[keys(f"k{number}")] * 5)
    await until(lambda: bool(topics.disk.paths(".keys")))
    topics.store("T", keys("last"))
    for _ in range(3):
        await asyncio.sleep(0.02)
        topics.store("T", keys("last"))
    await topics.keys.close()
    topics.crash()
    assert len(await topics.texts("T", "last")) == 4
    assert len(await topics.texts("T", "k0")) == 5


async def test_a_disk_that_keeps_nothing_is_an_error(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "CHUNK_ROWS", 5)
    monkeypatch.setattr(topics.disk, "read_file", lambda path: b"rubbish")
    topics.store("T", *[keys("k")] * 5)
    with pytest.raises(StorageError, match="is damaged"):
        await topics.find("T", "k")


async def test_a_deleted_topic_is_forgotten(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.store("T", keys("k", "first"))
    assert len(await topics.texts("T", "k")) == 1
    topics.logs.pop("T").delete()
    assert await topics.texts("T", "k") == []
    topics.keys.deleted("T")
    topics.store("T", keys("k", "second"))
    assert await topics.texts("T", "k") == [keys("k", "second")]
    topics.logs.pop("T").delete()
    await topics.keys.close()
    assert caplog.text == ""


async def test_a_search_leaves_the_loop_to_others(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "SLICE_NS", 0)
    monkeypatch.setattr(message_keys, "hash_of", lambda key: 7)
    for number in range(50):
        topics.store("T", keys(f"k{number}"))
    turns = 0
    searching = asyncio.ensure_future(topics.texts("T", "k0"))
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(await searching) == 1
    assert turns >= 50


async def test_a_search_that_takes_too_long_gives_what_it_has(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topics.store("T", *[keys("k", f"A{number}") for number in range(50)])
    await topics.texts("T", "k")
    monkeypatch.setattr(key_index, "SEARCH_S", -1)
    with caplog.at_level(logging.WARNING):
        assert len((await topics.find("T", "k")).frames) == 0
    assert "was given up" in caplog.text


async def test_an_index_that_lags_far_behind_is_searched_as_it_is(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topics.store("T", keys("k"))
    monkeypatch.setattr(key_index, "CATCH_UP_S", -1)
    assert await topics.find("T", "k") == Found([], -1, 0)
    assert "the key index of T lacks its newest 1 message" in caplog.text


def test_index_files_lie_beside_the_log(topics: Topics) -> None:
    topics.store("T", keys("k"))
    asyncio.run(topics.texts("T", "k"))
    asyncio.run(topics.keys.close())
    assert [os.path.dirname(path) for path in topics.disk.paths(".keys")] == ["/data/T"]
