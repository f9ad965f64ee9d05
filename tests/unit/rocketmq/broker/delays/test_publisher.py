"""Where a message goes that is to wait first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import Lives


@pytest.fixture
def services(tmp_path: Path, clock: FakeClock) -> Iterator[Services]:
    lives = Lives(tmp_path, clock)
    yield lives.begin("T")
    lives.end()


def delayed(level: object, body: bytes = b"x", queue: int = 1, **more: str) -> Draft:
    text = properties.join({"KEYS": "k", "DELAY": str(level), **more})
    return Draft("T", queue, body, text, born_ms=5, flag=3, reconsume_times=2)


def test_a_message_with_a_level_goes_to_the_queue_of_its_level(services: Services) -> None:
    draft = services.publisher.divert(delayed(3))
    assert (draft.topic, draft.queue) == (names.SCHEDULE_TOPIC, 2)
    found = properties.parse(draft.properties)
    assert found == {"KEYS": "k", "DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "1"}


@pytest.mark.parametrize("level", [99, (1 << 31) - 1])
def test_a_level_beyond_the_last_is_the_last(services: Services, level: int) -> None:
    draft = services.publisher.divert(delayed(level))
    assert draft.queue == 17
    assert properties.value_of(draft.properties, "DELAY") == "18"


def test_a_level_comes_before_a_time(services: Services) -> None:
    draft = services.publisher.divert(delayed(1, TIMER_DELAY_SEC="5"))
    assert draft.topic == names.SCHEDULE_TOPIC
    assert "TIMER" not in draft.properties


@pytest.mark.parametrize(
    "draft",
    [
        Draft("T", 0, b"x", "KEYS\x01k\x02"),
        Draft("T", 0, b"x", "MODEL\x01k\x02"),
        delayed(0),
        delayed(-1),
        delayed(-1 << 31),
        replace(delayed(1), sys_flag=4),
        replace(delayed(1), sys_flag=12),
        replace(delayed(1), topic=names.HALF_TOPIC),
        replace(delayed(1), topic=names.SCHEDULE_TOPIC),
    ],
)
def test_all_others_stay_what_they_are(services: Services, draft: Draft) -> None:
    assert services.publisher.divert(draft) is draft


def test_a_committed_message_may_be_delayed(services: Services) -> None:
    assert services.publisher.divert(replace(delayed(1), sys_flag=8)).topic == names.SCHEDULE_TOPIC


def test_what_is_no_level_is_refused(services: Services) -> None:
    for level in ("soon", 1 << 31, "1" * 5000):
        with pytest.raises(BodyError, match="DELAY is no number"):
            services.publisher.divert(delayed(level))
    with pytest.raises(RefusedError, match="longer than"):
        services.publisher.divert(delayed(1, more="v" * 32700))


def test_a_message_with_a_delay_waits_elsewhere(services: Services) -> None:
    services.topics.put(TopicConfig("T", 1, 1), services.now_ms)
    placed: list[Placed] = []

    def done(places: list[Placed], error: StorageError | None) -> None:
        assert error is None
        placed.extend(places)

    services.publisher.publish((Draft("T", 0, b"now"),), done)
    services.publisher.publish((Draft("T", 0, b"later", "DELAY\x013\x02"),), done)
    assert services.store.bounds("T", 0) == (0, 1)
    assert services.store.bounds("SCHEDULE_TOPIC_XXXX", 2) == (0, 1)
    assert len(placed) == 2
