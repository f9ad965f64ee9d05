"""Delay levels."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.core.units import HOUR, SECOND
from penstock.rocketmq.broker.state.levels import DelayLevels


def test_the_default() -> None:
    levels = DelayLevels()
    assert levels.highest == 18
    assert [levels.delay_ns(n) for n in (0, 1, 3, 18, 99, -1)] == [
        0, SECOND, 10 * SECOND, 2 * HOUR, 2 * HOUR, 0,
    ]  # fmt: skip
    assert levels.clip(99) == 18


def test_own_levels() -> None:
    assert DelayLevels("2s 1d").delay_ns(2) == 24 * HOUR
    with pytest.raises(ConfigError, match="'5x'"):
        DelayLevels("1s 5x")


@pytest.mark.parametrize("text", ["", " "])
def test_a_broker_without_levels_could_deliver_nothing_again(text: str) -> None:
    with pytest.raises(ConfigError, match="holds no level"):
        DelayLevels(text)
