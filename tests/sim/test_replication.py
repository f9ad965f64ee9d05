"""A pair of nodes under everything that may happen to them, by seeds."""

from __future__ import annotations

import os

import pytest

from tests.sim.pair import Pair

SEEDS = range(int(os.environ.get("PENSTOCK_PAIRS", "40")))
STEPS = 120


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_copy_is_what_the_primary_has_or_had(seed: int) -> None:
    pair = Pair(seed)
    for number in range(STEPS):
        pair.step()
        if number % 20 == 19:
            pair.check_promoted()
