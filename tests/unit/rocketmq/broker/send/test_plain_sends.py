"""The fast path of sends gives the bytes of the long way: in the log and in the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.broker.progress import TopicSettings
from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.node.commits import Commits
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.processor import Processor
from penstock.rocketmq.broker.send import plain_sends
from penstock.rocketmq.broker.send.plain_sends import PlainSends
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.rocketmq.remoting import Connection, RemotingServer
from penstock.storage.durability import Durability
from penstock.storage.files.disk import OsDisk
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, broker_settings, fake_node

JSON, BINARY = Serialization.JSON, Serialization.BINARY
both = pytest.mark.parametrize("kind", [JSON, BINARY])


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def writelines(self, pieces: Sequence[bytes]) -> None:
        self.writes.append(b"".join(pieces))

    def get_extra_info(self, _name: str) -> Any:
        return ("127.0.0.1", 50_000)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...


class Site:
    """A broker with a topic of 4 queues and a connection to it; with a fast path or without."""

    def __init__(self, path: Path, *, is_straight: bool = True, **settings: Any) -> None:
        self.settings = broker_settings(path)
        for name, value in settings.items():
            setattr(self.settings, name, value)
        self.clock = FakeClock()
        path.mkdir(parents=True, exist_ok=True)
        node = fake_node(path, self.clock)
        self.commits = node.commits = Commits(self.clock, Durability.WRITE, 1_000_000)
        state = StateFiles(OsDisk(), str(path / "config"))
        self.services = Services(self.settings, node, state, BROKER_ADDRESS, SystemChance(7))
        self.make("T", 4)
        self.make("%RETRY%PG", 1)
        processor = Processor(self.services.answers, self.services.acl, self.services.sends,
                              node.commits, self.services.disconnected)  # fmt: skip
        processor._has_fast_path &= is_straight
        server = RemotingServer(processor, gatherer=node.commits)
        self.connection: Connection = server()
        self.transport = Transport()
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def make(self, name: str, queues: int) -> None:
        """Make a topic, or change it."""
        self.services.topics.put(TopicConfig(name, queues, queues), 0)
        self.services.store.topic(name)
        self.services.store.configured(name)

    async def play(self, reads: Sequence[bytes]) -> list[bytes]:
        """What each read is answered with, when the pass is over."""
        answers = []
        for data in reads:
            before = len(self.transport.writes)
            self.connection.data_received(data)
            for _ in range(3):
                await asyncio.sleep(0)
            self.clock.advance(1_000_000)
            answers.append(b"".join(self.transport.writes[before:]))
        return answers

    @property
    def stored(self) -> dict[str, list[bytes]]:
        """The batches of each topic."""
        topics = self.services.node.broker.topics.values()
        return {topic.name: [bytes(raw) for raw in topic.log.read_raw(0, 1 << 30)]
                for topic in topics if topic.log.next_offset}  # fmt: skip

    @property
    def knows_any(self) -> bool:
        """True if the connection has patterns."""
        assert isinstance(self.connection.fast_path, PlainSends)
        return bool(self.connection.fast_path._ways)

    def close(self) -> None:
        self.connection.connection_lost(None)
        self.services.node.broker.close()


def sent(
    number: int, kind: Serialization, *, topic: str = "T", body: bytes = b"body", text: str = "",
    **fields: str,
) -> bytes:  # fmt: skip
    """A send; the queue follows the number."""
    text = text or f"UNIQ_KEY\x017F{number:06X}\x02WAIT\x01true"
    ext = {"a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": str(number % 4), "f": "0",
           "g": str(1_700_000_000_000 + number), "h": "0", "i": text, "j": "0", "k": "false",
           "m": "false", **fields}  # fmt: skip
    command = Command(RequestCode.SEND_MESSAGE_V2, number, ext, body, language=Language.JAVA,
                      version=401, serialization=kind)  # fmt: skip
    return frames.encode(command)


async def agree(path: Path, reads: Sequence[bytes], **settings: Any) -> None:
    """Both ways come to the same."""
    straight = Site(path / "straight", **settings)
    long = Site(path / "long", is_straight=False, **settings)
    answers = await straight.play(reads)
    assert answers == await long.play(reads)
    assert straight.stored == long.stored
    for site in (straight, long):
        stats = site.services.stats
        assert (stats.totals.put_messages, stats.totals.put_bytes) != (0, 0)
        site.close()
    assert straight.services.stats.totals.put_messages == stats.totals.put_messages
    assert straight.services.stats.totals.put_bytes == stats.totals.put_bytes


@both
async def test_one_send_at_a_time(tmp_path: Path, kind: Serialization) -> None:
    await agree(tmp_path, [sent(number, kind) for number in range(100)])


@both
async def test_many_sends_in_one_read(tmp_path: Path, kind: Serialization) -> None:
    sends = [sent(number, kind, body=b"x" * (number % 7)) for number in range(90)]
    await agree(tmp_path, [b"".join(sends[at : at + 15]) for at in range(0, 90, 15)])


async def test_sends_in_reads_of_any_size(tmp_path: Path) -> None:
    data = b"".join(sent(number, JSON if number % 20 < 10 else BINARY) for number in range(120))
    for size in (700, 1511):
        reads = [data[at : at + size] for at in range(0, len(data), size)]
        await agree(tmp_path / str(size), reads)


@both
async def test_other_requests_between_them(tmp_path: Path, kind: Serialization) -> None:
    others = [
        sent(1, kind, e="-1", text="A\x01b"), sent(2, kind, text="UNIQ_KEY\x01a\x02DELAY\x011"),
        sent(3, kind, body=b"x" * 5000), sent(4, kind, e="9"),
        sent(5, kind, topic="%RETRY%PG", e="0"),
        sent(6, kind, topic="rmq_sys_wheel_timer"), sent(7, kind, topic="Made"),
        sent(8, kind, topic="One", e="0"), sent(9, kind, topic="One", e="3"),
        sent(10, kind, body=b""), sent(11, kind, topic="no topic"),
        frames.encode(Command(99, 12, None, serialization=kind)),
    ]  # fmt: skip
    reads = []
    for number in range(20, 60):
        reads += [sent(number, kind), others[number % len(others)] + sent(number + 100, kind)]
    await agree(tmp_path, reads, max_message_size=4096)


async def test_long_frames_take_the_long_way(tmp_path: Path) -> None:
    await agree(tmp_path, [sent(number, BINARY, body=b"x" * 70_000) for number in range(8)])


async def test_a_lone_send_is_written_and_answered_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.play([sent(number, BINARY) for number in range(10)])
    before = len(site.transport.writes)
    site.connection.data_received(sent(10, BINARY))
    assert len(site.transport.writes) == before + 1
    answer = frames.FrameReader()
    answer.feed(site.transport.writes[-1])
    command = answer.next_command()
    assert command is not None
    assert command.ext is not None
    assert (command.code, command.opaque, command.ext["queueId"]) == (0, 10, "2")
    assert command.ext["queueOffset"] == "2"
    site.close()


async def test_one_write_answers_all_of_a_read(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.play([sent(number, BINARY) for number in range(10)])
    before = len(site.transport.writes)
    await site.play([b"".join(sent(number, BINARY) for number in range(10, 50))])
    assert len(site.transport.writes) == before + 1
    site.close()


async def test_nothing_is_written_to_a_connection_that_closes(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.play([sent(number, BINARY) for number in range(10)])
    stored, before = site.stored, len(site.transport.writes)
    site.transport.close()
    await site.play([sent(10, BINARY)])
    assert (site.stored, len(site.transport.writes)) == (stored, before)
    site.connection.send_now(b"late")
    assert len(site.transport.writes) == before
    site.close()


async def test_a_topic_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    sites = [Site(tmp_path / "straight"), Site(tmp_path / "long", is_straight=False)]
    answers = []
    for site in sites:
        found = await site.play([sent(number, BINARY) for number in range(12)])
        site.make("T", 2)
        found += await site.play([sent(number, BINARY) for number in range(12, 20)])
        site.services.topics.put(TopicConfig("T", 4, 4, order=True), 0)
        found += await site.play([sent(number, BINARY) for number in range(20, 24)])
        await site.services.store.delete("T")
        found += await site.play([sent(number, BINARY) for number in range(24, 28)])
        site.services.topics.delete("T", 0)
        site.services.topics.put(TopicConfig("T", 8, 8), 0)  # nothing is stored in it yet
        found += await site.play([sent(number, BINARY) for number in range(28, 40)])
        answers.append(found)
    assert answers[0] == answers[1]
    assert sites[0].stored == sites[1].stored
    for site in sites:
        site.close()


async def test_a_full_topic_and_a_broken_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = [Site(tmp_path / "ours"), Site(tmp_path / "long", is_straight=False)]
    answers = []

    for site in sites:
        found = await site.play([sent(number, BINARY) for number in range(12)])
        with monkeypatch.context() as patch:
            patch.setattr("penstock.storage.files.disk.os.pwrite", _no_space)
            found += await site.play([sent(12, BINARY), sent(13, BINARY) + sent(14, BINARY)])
        found += await site.play([sent(number, BINARY) for number in range(15, 18)])
        topic = site.services.node.broker.topics["T"]
        topic.channel("c")
        topic.configure(TopicSettings(max_depth=6))
        found += await site.play([sent(number, BINARY) for number in range(18, 24)])
        answers.append([answer.replace(b"/ours/", b"/long/") for answer in found])
    assert answers[0] == answers[1]
    assert sites[0].stored == sites[1].stored
    failures = [site.services.stats.totals.put_failures for site in sites]
    assert failures[0] == failures[1] > 0
    for site in sites:
        site.close()


def _no_space(*_: Any) -> int:
    raise OSError(28, "No space left on device")


async def test_nsq_s_messages_among_them_take_their_queues_by_turns(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.play([sent(number, BINARY) for number in range(8)])
    topic = site.services.node.broker.topics["T"]
    for number in range(6):
        assert site.commits.is_idle
        told: list[StorageError | None] = []
        site.commits.publish(topic, Bodies.single(b"%d" % number), 0, told.append)
        assert told == [None]
    await site.play([sent(number, BINARY) for number in range(8, 12)])
    ends = [topic.queues.end(queue) for queue in range(4)]
    assert ends == [5, 5, 4, 4]
    assert site.services.stats.totals.put_messages == 18
    site.close()


async def test_a_pattern_is_made_when_a_connection_goes_on_sending(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.play([sent(number, BINARY) for number in range(1 + plain_sends.UNSEEN_MAX)])
    assert not site.knows_any
    await site.play([sent(9, BINARY)])
    assert site.knows_any
    site.close()


async def test_patterns_of_a_connection_are_few(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(3 * plain_sends.WAYS_MAX):
        await site.play([sent(number, BINARY, text=f"P{number}\x01value")])
    line = site.connection.fast_path
    assert isinstance(line, PlainSends)
    assert len(line._ways) == plain_sends.WAYS_MAX
    for number in range(plain_sends.TRIES_MAX):
        await site.play([sent(number, BINARY, text=f"Q{number}\x01value")])
    known = [way.pattern.header.properties for way in line._ways]
    await site.play([sent(1, BINARY, text="Late\x01value")])
    assert known == [way.pattern.header.properties for way in line._ways], "it is given up"
    site.close()


@pytest.mark.parametrize("settings", [
    {"acl_enable": True}, {"flush_disk_type": "SYNC_FLUSH"}, {"broker_role": "SYNC_MASTER"},
    {"broker_role": "SLAVE", "broker_id": 1},
])  # fmt: skip
async def test_brokers_that_look_at_each_send_have_no_fast_path(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    (tmp_path / "config").mkdir(parents=True)
    (tmp_path / "config" / "plain_acl.yml").write_text("accounts: []\n")
    site = Site(tmp_path, **settings)
    await site.play([sent(1, BINARY)])
    assert site.connection.fast_path is None
    site.close()


async def test_a_connection_has_one_from_its_first_send_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    asked = Command(RequestCode.GET_MAX_OFFSET, 1, {"topic": "T", "queueId": "0"})
    await site.play([frames.encode(asked)])
    assert site.connection.fast_path is None
    await site.play([sent(1, BINARY)])
    assert isinstance(site.connection.fast_path, PlainSends)
    site.close()
