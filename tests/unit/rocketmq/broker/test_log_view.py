from __future__ import annotations

import pytest

from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.log_view import RocketView
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import store


async def filled(services: Services) -> RocketView:
    """A view of topic T, whose two queues have five messages each."""
    services.node.registry.topic("T")
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    services.store.configured("T")
    for number in range(5):
        await store(services, "T", 0, b"%d" % number)
        await store(services, "T", 1, b"%d" % number)
    return services.log_view


async def test_a_read_is_as_many_messages_as_fit_and_one_at_least(services: Services) -> None:
    view, topic = await filled(services), services.node.registry.topic("T")

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


async def test_the_bytes_of_a_queue_are_its_share(services: Services) -> None:
    view, topic = await filled(services), services.node.registry.topic("T")
    assert view.queue_count(topic) == 2
    assert view.extent(topic, 1) == (0, 5, topic.log.nbytes // 2)


async def test_a_place_of_the_log_as_a_reader_of_a_queue_counts(services: Services) -> None:
    view, topic = await filled(services), services.node.registry.topic("T")
    assert [view.place(topic, 0, offset) for offset in (0, 1, 6, 7, 10)] == [0, 1, 3, 4, 5]
    assert [view.place(topic, 1, offset) for offset in (0, 1, 6, 7, 10)] == [0, 0, 3, 3, 5]


async def test_a_group_holds_the_log_from_the_first_message_it_has_to_read(
    services: Services,
) -> None:
    view, topic = await filled(services), services.node.registry.topic("T")
    told: list[int] = []
    services.offsets.listeners.append(lambda key, queue: told.append(queue))
    assert view.commit(topic, "g", {}) is None
    assert view.commit(topic, "g", {0: 5}) == 1  # queue 1 is not read yet
    assert view.commit(topic, "g", {0: 5, 1: 3}) == 7
    assert told == [0, 1]
    assert view.groups(topic) == {"g": {0: 5, 1: 3}}
    with pytest.raises(ValueError, match="group"):
        view.commit(topic, "g g", {0: 5})
    view.forget(topic, "g")
    assert view.groups(topic) == {}


async def test_offsets_by_time(services: Services) -> None:
    view, topic = await filled(services), services.node.registry.topic("T")
    assert view.offset_at(topic, 1, 0) == 0
    assert view.offset_at(topic, 1, (services.now_ms + 60_000) * MILLISECOND) == 5
