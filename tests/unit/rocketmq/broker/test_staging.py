"""RocketMQ's staged messages: topics, sections and stamps."""

from __future__ import annotations

import struct

import pytest

from penstock.broker.publish.commit import Spot
from penstock.core.errors import TooManyFilesError
from penstock.node.dialect import StagingError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.staging import SECTIONS_MAX, RocketStaging
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.storage.batch import Batch


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
    services: Services, staging: RocketStaging
) -> None:
    assert await staging.topic("new") is await staging.topic("new")
    config = services.topics.get("new")
    assert config is not None
    assert config.write_queues == 4
    config.perm = 4
    services.topics.set_template(8, 0, inherited=False)
    for name, code in (
        ("new", "TOPIC_NOT_WRITABLE"), ("other", "TOPIC_NOT_FOUND"), ("a b", "INVALID_TOPIC"),
        ("%DLQ%g", "INVALID_TOPIC"), ("SCHEDULE_TOPIC_XXXX", "INVALID_TOPIC"),
    ):  # fmt: skip
        with pytest.raises(StagingError) as refused:
            await staging.topic(name)
        assert refused.value.code == code


async def test_a_topic_that_there_is_no_room_for_is_not_made(
    services: Services, staging: RocketStaging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.node.registry, "_topics_max", 0)
    with pytest.raises(TooManyFilesError):
        await staging.topic("new")
    assert "new" not in services.topics.configs


@pytest.mark.parametrize("sizes", [(3, 3), (3,) * 20, (0, 100)])
async def test_a_section_is_a_batch_that_gets_its_place(
    services: Services, staging: RocketStaging, sizes: tuple[int, ...]
) -> None:
    topic = await staging.topic("t")
    bodies = [b"x" * size for size in sizes]
    batch, other = staging.read(topic, section(7, *bodies, text="TAGS\1T\2") + section(0, b"y"))
    assert (batch.queue, batch.count, other.queue, other.count) == (7, len(sizes), 0, 1)
    writable = Batch.parse(memoryview(bytearray(batch.raw)))
    spot = Spot(topic.log.id_base + 11, 2, 5, 9_000_000)
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
    with pytest.raises(StagingError) as refused:
        staging.read(await staging.topic("t"), body)
    assert (refused.value.code, bool(refused.value.text)) == (code, True)
