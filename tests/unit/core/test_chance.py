from __future__ import annotations

from penstock.core.chance import Chance, SystemChance


def test_the_same_seed_gives_the_same_draws() -> None:
    one: Chance = SystemChance(7)
    other: Chance = SystemChance(7)
    assert [one.below(10) for _ in range(20)] == [other.below(10) for _ in range(20)]
    assert one.fraction() == other.fraction()


def test_draws_stay_in_range() -> None:
    chance = SystemChance(1)
    assert {chance.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0 <= chance.fraction() < 1 for _ in range(100))
