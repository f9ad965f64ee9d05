from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.paces import Pace
from penstock.admin.rocketmq.verdicts import Facts, of_disk, of_group, of_server


def pace(came: int, out: int) -> Pace:
    """What comes and goes in a second."""
    found = Pace()
    for time_s in range(0, 60, 10):
        found.take(time_s, came * time_s, out * time_s)
    return found


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        (Facts(0, 0), []),
        (Facts(5, 0), ["unattended warn"]),
        (Facts(1000, 0), ["unattended bad"]),
        (Facts(1000, 0, "BROADCASTING"), []),
        (Facts(999, 1, pace=pace(9, 1)), []),
        (Facts(1000, 1), ["unknown warn"]),
        (Facts(1000, 1, pace=pace(9, 1)), ["growing bad"]),
        (Facts(1000, 1, pace=pace(100, 99)), ["level warn"]),
        (Facts(1000, 1, pace=pace(1, 2)), []),
        (Facts(80_000, None, pace=pace(1, 2)), ["catching_up warn"]),
        (Facts(5, 0, consumes=False), ["disabled warn"]),
        (Facts(0, 0, consumes=False), []),
        (Facts(5, 0, letters=2), ["unattended warn", "letters warn"]),
    ],
)
def test_groups(facts: Facts, kinds: list[str]) -> None:
    assert [f"{each['kind']} {each['level']}" for each in of_group(facts)] == kinds


def test_the_figures_that_words_are_made_of() -> None:
    (verdict,) = of_group(Facts(80_000, 1, pace=pace(1, 2)))
    assert (verdict["depth"], verdict["growth"], verdict["seconds"]) == (80_000, -1, 80_000)
    (letters,) = of_group(Facts(0, 1, letters=3, letter_ms=9))
    assert (letters["letters"], letters["last_ms"]) == (3, 9)


def test_servers() -> None:
    assert of_server(answers=True) == []
    assert of_server(answers=False)[0]["kind"] == "silent"


@pytest.mark.parametrize(
    ("share", "levels"),
    [(None, []), (-1.0, []), (0.74, []), (0.75, ["warn"]), (0.85, ["bad"])],
)
def test_disks(share: float | None, levels: list[str]) -> None:
    verdicts: list[dict[str, Any]] = of_disk(share)
    assert [each["level"] for each in verdicts] == levels
