"""A broker's parts put together, periodic work, the view of its log, and staged messages."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.broker.publish.commit import BatchPlace
from penstock.core.errors import ConfigError, OffsetOutOfRangeError, StorageError, TooManyFilesError
from penstock.core.units import MILLISECOND
from penstock.node.dialect import StagingError
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.staging import SECTIONS_MAX, RocketStaging
from penstock.rocketmq.broker.state.files import TOPICS, StateFiles
from penstock.rocketmq.broker.state.topic_table import TopicTable
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.batch import Batch
from penstock.storage.files.disk import OsDisk
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, fake_node
from tests.unit.rocketmq.broker.filling import store, until

Make = Callable[[], Services]


@pytest.fixture
def make(settings: BrokerSettings, tmp_path: Path) -> Iterator[Make]:
    """Services that end with the test."""
    hosts = []

    def made() -> Services:
        hosts.append(fake_node(tmp_path))
        state = StateFiles(OsDisk(), str(tmp_path / "config"))
        return Services(settings, hosts[-1], state, BROKER_ADDRESS)

    yield made
    for host in hosts:
        host.broker.close()


@pytest.mark.parametrize("wanted", [True, False])
def test_access_rules_and_the_index_are_there_where_they_are_wanted(
    make: Make, settings: BrokerSettings, tmp_path: Path, wanted: bool
) -> None:
    settings.acl_enable = settings.message_index_enable = wanted
    settings.acl_directory = str(tmp_path)
    (tmp_path / "plain_acl.yml").write_text("accounts: []\n")
    services = make()
    assert (services.acl is not None) is wanted
    assert (services.keys.appended in services.store.on_append) is wanted
    assert services.name_servers.introduction.port == BROKER_ADDRESS.port


async def test_name_servers_say_which_topics_are_ordered(services: Services) -> None:
    config = services.topics.make_inner("T", 1, services.now_ms)
    told: list[bool] = []
    services.topics.listeners.append(lambda: told.append(config.order))
    for _ in range(2):
        services._set_order({"T"})
    assert told == [True]
    await services.name_servers.registered()  # without name servers there is nothing to wait for


def test_a_damaged_table_is_named(make: Make, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "messageRequestMode.json").write_text("[")
    with pytest.raises(ConfigError, match=r"messageRequestMode\.json is damaged"):
        make()


def test_a_change_of_topics_is_written_and_then_told(services: Services, tmp_path: Path) -> None:
    told: list[int] = []
    services.topics.listeners.append(lambda: told.append(len(services.topics.configs)))
    services.topics.put(TopicConfig("T", 4, 4), services.now_ms)
    services.topics.changed()
    assert told == [len(services.topics.configs)]
    again = TopicTable()
    StateFiles(OsDisk(), str(tmp_path / "config")).add(TOPICS, again.as_json, again.load)
    assert again == services.topics


# --- something that is done every so often --------------------------------------------------------


async def test_again_and_again_until_it_is_closed_whatever_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures: list[Exception] = [StorageError("the disk"), ValueError("a mistake")]
    times = 0

    def work() -> None:
        nonlocal times
        times += 1
        if failures:
            raise failures.pop(0)

    service = Periodic("test", 0.001, work)
    await service.close()
    service.start()
    await until(lambda: times >= 5)
    await service.close()
    before = times
    await asyncio.sleep(0.01)
    assert times == before
    assert "test: the disk; trying again" in caplog.text
    assert "test failed, trying again" in caplog.text


# --- the view of the log --------------------------------------------------------------------------


@pytest.fixture
async def filled(services: Services) -> Services:
    """With a topic T, whose two queues have five messages each."""
    services.node.registry.topic("T")
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    services.store.configured("T")
    for number in range(10):
        await store(services, "T", number % 2, b"%d" % number)
    return services


async def test_a_read_is_as_many_messages_as_fit_and_one_at_least(filled: Services) -> None:
    view, topic = filled.log_view, filled.node.registry.topic("T")

    def read(offset: int, nbytes: int) -> list[int]:
        data = b"".join(view.read(topic, 1, offset, nbytes))
        return [message.queue_offset for message in decode_all(data)]

    (size,) = {len(piece) for piece in view.read(topic, 1, 0, 1 << 20)}
    assert read(0, 1 << 20) == [0, 1, 2, 3, 4]
    assert read(1, 3 * size) == [1, 2, 3]
    assert read(1, 3 * size - 1) == [1, 2]
    assert read(3, 1) == [3]
    assert read(5, 1 << 20) == []
    with pytest.raises(OffsetOutOfRangeError):
        view.read(topic, 1, 6, 1 << 20)


async def test_a_place_of_the_log_as_a_reader_of_a_queue_counts(filled: Services) -> None:
    view, topic = filled.log_view, filled.node.registry.topic("T")
    for queue, places in ((0, [0, 1, 3, 4, 5]), (1, [0, 0, 3, 3, 5])):
        assert [view.place(topic, queue, offset) for offset in (0, 1, 6, 7, 10)] == places
    assert view.queue_count(topic) == 2
    assert view.extent(topic, 1) == (0, 5, topic.log.nbytes // 2)
    assert view.offset_at(topic, 1, 0) == 0
    assert view.offset_at(topic, 1, (filled.now_ms + 60_000) * MILLISECOND) == 5


async def test_a_group_holds_the_log_from_the_first_message_it_has_to_read(
    filled: Services,
) -> None:
    view, topic = filled.log_view, filled.node.registry.topic("T")
    told: list[int] = []
    filled.offsets.listeners.append(lambda key, queue: told.append(queue))
    assert view.commit(topic, "g", {}) is None
    assert view.commit(topic, "g", {0: 5}) == 1  # queue 1 is not read yet
    assert view.commit(topic, "g", {0: 5, 1: 3}) == 7
    assert told == [0, 1]
    assert view.groups(topic) == {"g": {0: 5, 1: 3}}
    with pytest.raises(ValueError, match="group"):
        view.commit(topic, "g g", {0: 5})
    view.forget(topic, "g")
    assert view.groups(topic) == {}


# --- staged messages: topics, sections and stamps -------------------------------------------------


def section(shard: int, *bodies: bytes, text: str = "") -> bytes:
    """Messages of one shard."""
    body = batch_body.encode(BatchedMessage(each, text) for each in bodies)
    return struct.pack(">II", shard, len(body)) + body


@pytest.fixture
def staging(services: Services) -> RocketStaging:
    """Of a broker that makes topics as they are sent to."""
    services.topics.set_template(8, 0, inherited=True)
    return services.staging


async def test_a_topic_is_made_only_where_a_send_would_make_it(
    services: Services, staging: RocketStaging, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await staging.topic("new") is await staging.topic("new")
    config = services.topics.get("new")
    assert config is not None
    assert config.write_queues == 4
    with monkeypatch.context() as patch:
        patch.setattr(services.node.registry, "_topics_max", 0)
        with pytest.raises(TooManyFilesError):
            await staging.topic("other")
        assert "other" not in services.topics.configs
    config.perm = 4
    services.topics.set_template(8, 0, inherited=False)
    for name, code in (
        ("new", "TOPIC_NOT_WRITABLE"), ("other", "TOPIC_NOT_FOUND"), ("a b", "INVALID_TOPIC"),
        ("%DLQ%g", "INVALID_TOPIC"), ("SCHEDULE_TOPIC_XXXX", "INVALID_TOPIC"),
    ):  # fmt: skip
        with pytest.raises(StagingError) as refused:
            await staging.topic(name)
        assert refused.value.code == code


@pytest.mark.parametrize("sizes", [(3, 3), (3,) * 20, (0, 100)])
async def test_a_section_is_a_batch_that_gets_its_place(
    services: Services, staging: RocketStaging, sizes: tuple[int, ...]
) -> None:
    topic = await staging.topic("t")
    bodies = [b"x" * size for size in sizes]
    batch, other = staging.read(topic, section(7, *bodies, text="TAGS\1T\2") + section(0, b"y"))
    assert (batch.queue, batch.count, other.queue, other.count) == (7, len(sizes), 0, 1)
    writable = Batch.parse(memoryview(bytearray(batch.raw)))
    spot = BatchPlace(topic.log.id_base + 11, 2, 5, 9_000_000)
    assert staging.stamp(topic)(writable, spot) == sum(sizes)
    for number, message in enumerate(decode_all(writable.frames)):
        assert (message.topic, message.queue, message.queue_offset) == ("t", 2, 5 + number)
        assert message.physical_offset == services.store.serials.physical("t", 11 + number)
        assert (message.body, message.store_ms) == (bodies[number], 9)
        assert message.properties.startswith("TAGS\1T\2")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "BAD_BODY"),
        (section(1, b"a")[:-1], "BAD_BODY"),
        (struct.pack(">II", 1, 4) + b"abcd", "BAD_BODY"),
        (section(1, b"a") * (SECTIONS_MAX + 1), "BAD_BODY"),
        (section(1, b"a", text="k\1" + "v" * 32_760 + "\2"), "BAD_BODY"),
        (section(1, b"a" * 2001), "MSG_TOO_BIG"),
        (section(1, *[b"a" * 2001] * 20), "MSG_TOO_BIG"),
    ],
    ids=["empty", "cut short", "no messages", "sections", "properties", "body", "even bodies"],
)
async def test_a_wrong_chunk_is_refused_with_its_code(
    services: Services, staging: RocketStaging, body: bytes, code: str
) -> None:
    services.settings.max_message_size = 2000
    with pytest.raises(StagingError) as caught:
        staging.read(await staging.topic("t"), body)
    assert (caught.value.code, bool(caught.value.text)) == (code, True)
