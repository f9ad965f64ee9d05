"""Plain sends come to the same with compiled code and without, whatever clients send."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import lane
from penstock.broker.progress import TopicSettings
from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.node.commits import Commits
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.processor import Processor
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Language, Serialization
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.rocketmq.remoting import Connection, RemotingServer
from penstock.storage.batch import iter_batches
from penstock.storage.durability import Durability
from penstock.storage.files.disk import OsDisk
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, broker_settings, fake_node

pytestmark = pytest.mark.skipif(lane.COMPILED is None, reason=f"compiled lane: {lane.STATE}")

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
    """A broker with a topic of 4 queues and a connection to it; with compiled code or without."""

    def __init__(self, path: Path, *, compiled: bool = True, **settings: Any) -> None:
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
        with pytest.MonkeyPatch.context() as patch:
            if not compiled:
                patch.setattr(lane, "publisher", lambda *_: None)
            processor = Processor(self.services.answers, self.services.acl, self.services.sends,
                                  node.commits, self.services.disconnected)  # fmt: skip
        server = RemotingServer(processor, gatherer=node.commits)
        self.connection: Connection = server()
        self.transport = Transport()
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def make(self, name: str, queues: int) -> None:
        """Make a topic, or change it."""
        self.services.topics.put(TopicConfig(name, queues, queues), 0)
        self.services.store.topic(name)
        self.services.store.configured(name)

    async def play(self, reads: Sequence[bytes]) -> list[list[bytes]]:
        """What each read is answered with, when the pass is over."""
        answers: list[list[bytes]] = []
        for data in reads:
            before = len(self.transport.writes)
            self.connection.data_received(data)
            for _ in range(3):
                await asyncio.sleep(0)
            self.clock.advance(1_000_000)
            answers.append(self.answers(before))
        return answers

    def answers(self, before: int) -> list[bytes]:
        """The answers behind so many writes. Their order is free, as they say whose they are."""
        data, found = b"".join(self.transport.writes[before:]), []
        while data:
            size = 4 + int.from_bytes(data[:4])
            found.append(data[:size])
            data = data[size:]
        return sorted(found)

    @property
    def stored(self) -> dict[str, list[bytes]]:
        """The batches of each topic."""
        topics = self.services.node.broker.topics.values()
        return {topic.name: [bytes(raw) for raw in topic.log.read_raw(0, 1 << 30)]
                for topic in topics if topic.log.next_offset}  # fmt: skip

    @property
    def is_plain(self) -> bool:
        """True if compiled code takes sends from the connection."""
        parsed: list[bytes] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.connection, "parse", parsed.append)
            self.connection.data_received(sent(3, BINARY))
        return not parsed

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


async def both_ways(
    path: Path, play: Callable[[Site], Awaitable[list[list[bytes]]]], **settings: Any
) -> None:
    """Both come to the same."""
    sites = [Site(path / "fast", **settings), Site(path / "long", compiled=False, **settings)]
    answers = [
        [[each.replace(b"/fast/", b"/long/") for each in read] for read in await play(site)]
        for site in sites
    ]
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


async def test_long_frames(tmp_path: Path) -> None:
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


async def test_a_topic_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    async def play(site: Site) -> list[list[bytes]]:
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


async def test_properties_of_the_broker_that_change_while_it_runs(tmp_path: Path) -> None:
    async def play(site: Site) -> list[list[bytes]]:
        answers = await site.play([sent(number, JSON) for number in range(4)])
        site.settings.max_message_size = 8
        site.settings.region_id, site.settings.trace_on = "Other", False
        answers += await site.play([sent(4, JSON), sent(5, BINARY, body=b"nine chars")])
        assert site.connection.serialization is BINARY
        return answers + await site.play([sent(6, BINARY), sent(7, JSON)])

    await both_ways(tmp_path, play)


async def test_a_client_is_asked_in_the_serialisation_that_it_used_last(site: Site) -> None:
    await site.play([sent(1, JSON)])
    for number, kind in enumerate((BINARY, JSON, BINARY)):
        await site.play([sent(number, kind)])
        assert site.connection.serialization is kind


async def test_a_full_topic_and_a_broken_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(site: Site) -> list[list[bytes]]:
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


async def test_compiled_code_takes_what_comes_behind_the_first_read(site: Site) -> None:
    await site.play([sent(1, BINARY)])
    assert site.is_plain


@pytest.mark.parametrize("settings", [
    {"acl_enable": True}, {"flush_disk_type": "SYNC_FLUSH"}, {"broker_role": "SYNC_MASTER"},
    {"broker_role": "SLAVE", "broker_id": 1},
])  # fmt: skip
async def test_brokers_that_look_at_each_send_take_none_as_plain(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    (tmp_path / "config").mkdir(parents=True)
    (tmp_path / "config" / "plain_acl.yml").write_text("accounts: []\n")
    site = Site(tmp_path, **settings)
    await site.play([sent(1, BINARY)])
    assert not site.is_plain
    site.close()


async def test_sends_of_a_pass_to_one_queue_share_a_batch(site: Site) -> None:
    await site.play([sent(number, BINARY) for number in range(4)])
    others = [site.connection._server() for _ in range(3)]
    for other in others:
        other.connection_made(cast(asyncio.Transport, Transport()))
        other.data_received(sent(0, JSON))
    await site.play([])
    await asyncio.sleep(0)
    before = len(site.stored["T"])
    site.commits.hold()  # as in a pass that many share
    for number, other in enumerate([*others, *others, site.connection]):
        other.data_received(sent(4 * number, JSON))
    site.commits.release()
    batches = list(iter_batches(b"".join(site.stored["T"][before:])))
    assert [(batch.queue, batch.count) for batch in batches] == [(0, 7)]


# --- whatever clients send ------------------------------------------------------------------------

KEY = "UNIQ_KEY\x017F0001"
TEXTS = st.sampled_from([
    KEY, f"{KEY}\x02", f"{KEY}\x02WAIT\x01true", f"{KEY}\x02WAIT\x01false\x02", "WAIT\x01true",
    f"WAIT\x01true\x02{KEY}", f"WAIT\x01true\x02{KEY}\x02", f"A\x01b\x02WAIT\x01true\x02{KEY}",
    f"AWAIT\x01true\x02WAIT\x01true\x02{KEY}", f"{KEY}\x02WAIT\x01", "WAIT\x01a\x02WAIT\x01b",
    "TAGS", "\x01value", "TAGS\x01\xe4", 'TAGS\x01"', "TAGS\x01a\\b", f"{KEY}\x02DELAY\x013",
    f"{KEY}\x02TRAN_MSG\x01true", f"{KEY}\x02TIMER_DELAY_MS\x015", f"{KEY}\x02CLUSTER\x01x",
    f"{KEY}\x02POP_CK\x010 1 2", f"{KEY}\x02\x02", "\x02", " ", f"{KEY}\x02{KEY}", "TAGS\x01\x7f",
    "K\x01" + "x" * 32_700, "K\x01" + "x" * 32_750, "K\x01\x03", f"{KEY}\x02WAIT\0\x01true",
]) | st.text("AB\x01\x02 ", max_size=8).map(f"{KEY}\x02".__add__)  # fmt: skip
NUMBERS = st.sampled_from(
    ["0", "1", "3", "4", "-1", "", "x", "+1", " 1", "1_0", "00", "007", "-0", "2147483647",
     "2147483648", "9223372036854775807", "12345678901234567890", "\u0663"]
)  # fmt: skip
FIELDS = st.dictionaries(
    st.sampled_from("abcdefghijklmnz"),
    NUMBERS | st.sampled_from(["true", "false", "TRUE", "T", "U", "%RETRY%PG", "no topic", "x\\n"]),
    max_size=2,
)
LONG = dict(zip("abcdefghijklm", (
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
    "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes",
    "batch"), strict=True))  # fmt: skip
BATCH = st.lists(
    st.builds(BatchedMessage, st.binary(max_size=20), TEXTS, st.integers(-5, 5)), max_size=5
).map(batch_body.encode)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A send, mostly plain; now and then anything."""
    number = draw(st.integers(0, 9))
    code = draw(st.sampled_from([310] * 4 + [10, 10, 320, 11, 3101]))
    is_batch = draw(st.integers(0, 3)) == 0
    ext = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": str(number % 4), "f": "0",
           "g": str(1_700_000_000_000 + number), "h": "0", "i": draw(TEXTS), "j": "0",
           "k": "false", "m": str(is_batch).lower()}  # fmt: skip
    if draw(st.integers(0, 2)) == 0:
        ext.update(draw(FIELDS))
    if code == 10:
        ext = {LONG.get(name, name): value for name, value in ext.items()}
    body = draw(BATCH) if is_batch else draw(st.binary(max_size=40))
    if draw(st.integers(0, 15)) == 0:
        body = body[: draw(st.integers(0, 20))] + b"x" * draw(st.integers(0, 100))
    kind = draw(st.sampled_from(Serialization))
    flag = draw(st.sampled_from([0] * 12 + [ONE_WAY, 1, 4]))
    remark = draw(st.sampled_from([None] * 12 + ["a remark"]))
    try:
        return frames.encode(Command(code, number, ext, body, flag, remark, Language.JAVA, 401,
                                     kind))  # fmt: skip
    except ValueError:
        return sent(number, kind)


DAMAGE = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2)


@settings(
    max_examples=80, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    sends=st.lists(requests(), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 3000), max_size=6),
    damage=st.just([]) | DAMAGE,
)
def test_whatever_clients_send(
    tmp_path_factory: pytest.TempPathFactory,
    sends: list[bytes],
    cuts: list[int],
    damage: list[tuple[int, int]],
) -> None:
    data = bytearray(b"".join(sends))
    for place, byte in damage:
        data[place % len(data)] = byte
    ends = sorted({min(each, len(data)) for each in cuts} | {0, len(data)})
    # Behind a send, as the first read of a connection is not looked at.
    reads = [sent(0, BINARY), *(bytes(data[a:b]) for a, b in itertools.pairwise(ends))]
    asyncio.run(agree(tmp_path_factory.mktemp("both"), reads, max_message_size=4096))


@pytest.mark.parametrize("before", [b'{"code":310', b'"flag":0', b'"opaque":'])
async def test_json_that_is_written_in_another_way(tmp_path: Path, before: bytes) -> None:
    reads = [sent(0, JSON)]
    for more in (b" ", b"0", b"\t", b'"x":null,', b'"flag":2,', b"}"):
        whole = sent(1, JSON)
        header = whole[8:-4].replace(before, more + before)
        length = len(header).to_bytes(4)
        reads.append((8 + len(header)).to_bytes(4) + length + header + whole[-4:])
    await agree(tmp_path, reads)
