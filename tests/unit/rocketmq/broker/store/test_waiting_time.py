"""The clock for messages that wait in a system topic."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.units import HOUR, MILLISECOND, SECOND
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.waiting_time import WaitingTime
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import stored


def test_without_a_topic_it_is_the_systems_time(services: Services, clock: FakeClock) -> None:
    time = WaitingTime(services.store, clock, "nothing")
    clock.set_wall(clock.wall_ns() + HOUR)
    assert (time.now_ms(), time.of(5, 77)) == (clock.wall_ns() // MILLISECOND, 77)
    assert (time.ahead_ms(), time.least_ahead_ms()) == (0, 0)


async def test_it_goes_on_while_the_systems_time_is_set(
    services: Services, clock: FakeClock
) -> None:
    services.topics.put(TopicConfig("T", 1, 1), services.now_ms)
    time, start = WaitingTime(services.store, clock, "T"), services.now_ms
    await store(services, "T", 0, b"before")
    clock.set_wall(clock.wall_ns() - HOUR)
    clock.advance(SECOND)
    await store(services, "T", 0, b"after")
    clock.advance(SECOND)
    before, after = stored(services, "T")
    assert time.now_ms() == start + 2000
    assert (time.ahead_ms(), time.least_ahead_ms()) == (-HOUR // MILLISECOND,) * 2
    assert (time.age_ms(before, before.store_ms), time.age_ms(after, after.store_ms)) == (
        2000, 1000
    )  # fmt: skip
    assert (time.due_ms(before, 5000), time.due_ms(after, 5000)) == (start + 5000, start + 6000)


async def test_a_message_from_the_future_is_due_now(services: Services, clock: FakeClock) -> None:
    (placed,) = await store(services, "T", 0, b"x")
    time = WaitingTime(services.store, clock, "T")
    (message,) = stored(services, "T")
    future = replace(message, store_ms=placed.store_ms + 1001)
    near = replace(message, store_ms=placed.store_ms + 1000)
    assert time.due_ms(future, 5000) == time.now_ms()
    assert time.due_ms(near, 5000) == time.now_ms() + 6000


async def test_a_deadline_is_exact_while_time_passes(services: Services, clock: FakeClock) -> None:
    (placed,) = await store(services, "T", 0, b"x")
    (message,) = stored(services, "T")
    time = WaitingTime(services.store, clock, "T")
    monotonic_ns = clock.monotonic_ns

    def read() -> int:
        clock.advance(3 * MILLISECOND)
        return monotonic_ns()

    clock.monotonic_ns = read  # type: ignore[method-assign]
    assert time.due_ms(message, 5000) == placed.store_ms + 5000
