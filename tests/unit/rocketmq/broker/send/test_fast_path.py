"""The fast path of sends gives the bytes of the long way; patterns read what the parser reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.progress import TopicSettings
from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.node.commits import Commits
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.processor import Processor
from penstock.rocketmq.broker.send import plain_sends
from penstock.rocketmq.broker.send.plain_sends import PlainSends
from penstock.rocketmq.broker.send.send_pattern import HEADER_MAX, PlainHead, SendPattern
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol import frames, header_binary, header_json
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Language, Serialization
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
    def line(self) -> PlainSends:
        """The connection's fast path, which it has from its first send on."""
        assert isinstance(self.connection.fast_path, PlainSends)
        return self.connection.fast_path

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
    command = Command(Code.SEND_MESSAGE_V2, number, ext, body, language=Language.JAVA,
                      version=401, serialization=kind)  # fmt: skip
    return frames.encode(command)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


async def both_ways(path: Path, play: Callable[[Site], Awaitable[list[bytes]]], **settings: Any
                    ) -> None:  # fmt: skip
    """The fast path and the long way come to the same."""
    sites = [Site(path / "fast", **settings), Site(path / "long", is_straight=False, **settings)]
    answers = [[each.replace(b"/fast/", b"/long/") for each in await play(site)] for site in sites]
    assert answers[0] == answers[1]
    assert sites[0].stored == sites[1].stored
    totals = [site.services.stats.totals for site in sites]
    for name in ("put_messages", "put_bytes", "put_failures"):
        assert getattr(totals[0], name) == getattr(totals[1], name)
    assert totals[0].put_messages > 0
    for site in sites:
        site.close()


async def agree(path: Path, reads: Sequence[bytes], **settings: Any) -> None:
    """They do for these reads."""
    await both_ways(path, lambda site: site.play(reads), **settings)


@both
async def test_sends_one_by_one_and_many_in_one_read(tmp_path: Path, kind: Serialization) -> None:
    await agree(tmp_path / "1", [sent(number, kind) for number in range(100)])
    sends = [sent(number, kind, body=b"x" * (number % 7)) for number in range(90)]
    await agree(tmp_path / "15", [b"".join(sends[at : at + 15]) for at in range(0, 90, 15)])


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


async def test_a_lone_send_is_written_and_answered_at_once(site: Site) -> None:
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
    await site.play([b"".join(sent(number, BINARY) for number in range(10, 50))])
    assert len(site.transport.writes) == before + 2, "one write answers all of a read"


async def test_nothing_is_written_to_a_connection_that_closes(site: Site) -> None:
    await site.play([sent(number, BINARY) for number in range(10)])
    stored, before = site.stored, len(site.transport.writes)
    site.transport.close()
    await site.play([sent(10, BINARY)])
    assert (site.stored, len(site.transport.writes)) == (stored, before)
    site.connection.send_now(b"late")
    assert len(site.transport.writes) == before


async def test_a_topic_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    async def play(site: Site) -> list[bytes]:
        answers = await site.play([sent(number, BINARY) for number in range(12)])
        site.make("T", 2)
        answers += await site.play([sent(number, BINARY) for number in range(12, 20)])
        site.services.topics.put(TopicConfig("T", 4, 4, order=True), 0)
        answers += await site.play([sent(number, BINARY) for number in range(20, 24)])
        await site.services.store.delete("T")
        answers += await site.play([sent(number, BINARY) for number in range(24, 28)])
        site.services.topics.delete("T", 0)
        site.services.topics.put(TopicConfig("T", 8, 8), 0)  # nothing is stored in it yet
        return answers + await site.play([sent(number, BINARY) for number in range(28, 40)])

    await both_ways(tmp_path, play)


async def test_a_full_topic_and_a_broken_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(site: Site) -> list[bytes]:
        answers = await site.play([sent(number, BINARY) for number in range(12)])
        with monkeypatch.context() as patch:
            patch.setattr("penstock.storage.files.disk.os.pwrite", _no_space)
            answers += await site.play([sent(12, BINARY), sent(13, BINARY) + sent(14, BINARY)])
        assert site.services.stats.totals.put_failures > 0
        answers += await site.play([sent(number, BINARY) for number in range(15, 18)])
        topic = site.services.node.broker.topics["T"]
        topic.channel("c")
        topic.configure(TopicSettings(max_depth=6))
        return answers + await site.play([sent(number, BINARY) for number in range(18, 24)])

    await both_ways(tmp_path, play)


def _no_space(*_: Any) -> int:
    raise OSError(28, "No space left on device")


async def test_nsq_s_messages_among_them_take_their_queues_by_turns(site: Site) -> None:
    await site.play([sent(number, BINARY) for number in range(8)])
    topic = site.services.node.broker.topics["T"]
    for number in range(6):
        assert site.commits.is_idle
        told: list[StorageError | None] = []
        site.commits.publish(topic, Bodies.single(b"%d" % number), 0, told.append)
        assert told == [None]
    await site.play([sent(number, BINARY) for number in range(8, 12)])
    assert [topic.queues.end(queue) for queue in range(4)] == [5, 5, 4, 4]
    assert site.services.stats.totals.put_messages == 18


async def test_a_pattern_is_made_when_a_connection_goes_on_sending(site: Site) -> None:
    asked = Command(Code.GET_MAX_OFFSET, 1, {"topic": "T", "queueId": "0"})
    await site.play([frames.encode(asked)])
    assert site.connection.fast_path is None
    await site.play([sent(number, BINARY) for number in range(1 + plain_sends.UNSEEN_MAX)])
    assert not site.line._ways
    await site.play([sent(9, BINARY)])
    assert site.line._ways


async def test_patterns_of_a_connection_are_few(site: Site) -> None:
    def known() -> list[str]:
        return [way.pattern.header.properties for way in site.line._ways]

    for number in range(3 * plain_sends.WAYS_MAX):
        await site.play([sent(number, BINARY, text=f"P{number}\x01value")])
    assert len(known()) == plain_sends.WAYS_MAX
    for number in range(plain_sends.TRIES_MAX):
        await site.play([sent(number, BINARY, text=f"Q{number}\x01value")])
    before = known()
    await site.play([sent(1, BINARY, text="Late\x01value")])
    assert known() == before, "it is given up"


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


# --- patterns -------------------------------------------------------------------------------------


CLUSTER = "CLUSTER\x01DefaultCluster"
KEY = "UNIQ_KEY\x017F0001"


def header(
    kind: Serialization, text: str = KEY, *, code: int = Code.SEND_MESSAGE_V2,
    opaque: int = 7, flag: int = 0, **fields: str,
) -> bytes:  # fmt: skip
    """A send as Java's client has it."""
    ext = {"a": "PG", "b": "Topic", "c": "TBW102", "d": "4", "e": "3", "f": "0",
           "g": "1700000000000", "h": "0", "i": text, "j": "0", "k": "false", "m": "false",
           **fields}  # fmt: skip
    codec = header_binary if kind else header_json
    return codec.encode(Command(code, opaque, ext, b"", flag, language=Language.JAVA, version=401))


def read(pattern: SendPattern, kind: int, data: bytes) -> PlainHead | None:
    """The header in the midst of other bytes."""
    return pattern.read(kind, b"before" + data + b"behind", 6, 6 + len(data))


def pattern_of(kind: Serialization, data: bytes) -> SendPattern:
    found = SendPattern.of(kind, data, CLUSTER)
    assert found is not None
    return found


@both
@given(
    opaque=st.integers(0, 999_999_999),
    queue=st.integers(0, 99_999),
    born_ms=st.integers(10**12, 10**13 - 1),
    key=st.text("0123456789ABCDEF", max_size=32),
    tag=st.text("abc .%+*?[(){}^$|-", max_size=8),
)
def test_what_differs_is_read(
    kind: Serialization, opaque: int, queue: int, born_ms: int, key: str, tag: str
) -> None:
    pattern = pattern_of(kind, header(kind, f"{KEY}\x02WAIT\x01true\x02TAGS\x01a"))
    text = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01{tag}"
    other = header(kind, text, opaque=opaque, e=str(queue), g=str(born_ms))
    stored = f"UNIQ_KEY\x01{key}\x02TAGS\x01{tag}\x02{CLUSTER}"
    assert read(pattern, kind, other) == PlainHead(opaque, queue, born_ms, stored.encode())


@both
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (KEY, f"{KEY}\x02"),
        (f"{KEY}\x02", f"{KEY}\x02"),
        (f"{KEY}\x02WAIT\x01true", f"{KEY}\x02"),
        (f"{KEY}\x02WAIT\x01false\x02", f"{KEY}\x02"),
        (f"WAIT\x01true\x02{KEY}", f"{KEY}\x02"),
        (f"WAIT\x01true\x02{KEY}\x02", f"{KEY}\x02"),
        (f"AWAIT\x01true\x02WAIT\x01true\x02{KEY}", f"AWAIT\x01true\x02{KEY}\x02"),
    ],
)
def test_properties_are_stored_as_they_are_with_the_cluster(
    kind: Serialization, text: str, stored: str
) -> None:
    head = read(pattern_of(kind, header(kind, text)), kind, header(kind, text))
    assert head is not None
    assert head.properties.decode() == stored + CLUSTER


@both
def test_the_long_names_of_fields_have_patterns_too(kind: Serialization) -> None:
    codec = header_binary if kind else header_json
    ext = {"topic": "Topic", "producerGroup": "PG", "properties": KEY, "queueId": "12",
           "flag": "0", "bornTimestamp": "1700000000001"}  # fmt: skip
    data = codec.encode(Command(Code.SEND_MESSAGE, 9, ext))
    stored = f"{KEY}\x02{CLUSTER}".encode()
    assert read(pattern_of(kind, data), kind, data) == PlainHead(9, 12, 1700000000001, stored)


@both
def test_a_header_that_differs_elsewhere_is_not_read(kind: Serialization) -> None:
    pattern = pattern_of(kind, header(kind, f"{KEY}\x02WAIT\x01true"))
    wait = f"{KEY}\x02WAIT\x01true"
    others = [
        header(kind, wait, b="Other"), header(kind, wait, flag=ONE_WAY), header(kind, wait, f="1"),
        header(kind, wait, e="-1"), header(kind, wait, g="x"), header(kind, wait, l="16"),
        header(kind, f"{wait}\x02DELAY\x013"), header(kind, f"{KEY}\x02WAIT\x01false"),
        header(kind, f"{KEY}\xe4\x02WAIT\x01true"), header(kind, "TAGS\x01a\x02WAIT\x01true"),
        header(kind, wait)[:-1], header(kind, wait) + b" ",
    ]  # fmt: skip
    assert [read(pattern, kind, other) for other in others] == [None] * len(others)
    assert read(pattern, 1 - kind, header(kind, wait)) is None


@both
@pytest.mark.parametrize(
    "data",
    [
        {"m": "true"}, {"e": "-1"}, {"e": ""}, {"e": "x"}, {"g": "+5"}, {"f": "4"},
        {"g": "12345678901234567890"}, {"flag": ONE_WAY}, {"code": Code.SEND_BATCH_MESSAGE},
        {"a": "x" * HEADER_MAX}, {"text": ""}, {"text": "TAGS"}, {"text": "\x01value"},
        {"text": f"{KEY}\x02{KEY}"}, {"text": "TAGS\x01\xe4"}, {"text": 'TAGS\x01"'},
        {"text": "WAIT\x01true"}, {"text": f"{KEY}\x02WAIT\x01"}, {"text": f"{KEY}\x02DELAY\x013"},
        {"text": f"{KEY}\x02TRAN_MSG\x01true"}, {"text": f"{KEY}\x02TIMER_DELAY_MS\x015"},
        {"text": f"{KEY}\x02CLUSTER\x01x"},
    ],
)  # fmt: skip
def test_what_is_not_plain_has_no_pattern(kind: Serialization, data: dict[str, str]) -> None:
    values = {"text": KEY, **data}
    assert SendPattern.of(kind, header(kind, **values), CLUSTER) is None  # type: ignore[arg-type]


@both
def test_what_is_no_header_of_ours_has_no_pattern(kind: Serialization) -> None:
    data = header(kind)
    spaced = data.replace(b'"opaque":7', b'"opaque": 7') if kind == JSON else data + b"\0"
    assert SendPattern.of(kind, spaced, CLUSTER) is None
    assert SendPattern.of(kind, b"", CLUSTER) is None


def test_lengths_that_lie_are_left_to_the_parser() -> None:
    data = header(BINARY)
    pattern = pattern_of(BINARY, data)
    size_at = header_binary.HEAD_BYTES - 1
    text_at = data.index(KEY.encode()) - 1
    for place in (size_at, text_at):
        lying = bytearray(data)
        lying[place] += 1
        assert read(pattern, BINARY, bytes(lying)) is None


def test_only_sends_may_have_patterns() -> None:
    for kind in (JSON, BINARY):
        for code, expected in ((310, True), (10, True), (320, False), (11, False), (3101, False)):
            data = header(kind, code=code)
            assert SendPattern.is_send(kind, b"x" + data, 1) is expected
    assert not SendPattern.is_send(2, header(JSON), 0)
