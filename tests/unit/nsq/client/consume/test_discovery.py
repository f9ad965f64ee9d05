"""When nsqlookupds are asked."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.discovery import Discovery, checked_url
from penstock.testing.clock import FakeClock

ONE = "http://one:4161/lookup?topic=t"
TWO = "http://two:4161/lookup?topic=t"


class Case:
    def __init__(self, *lookupds: str, **options: Any) -> None:
        self.clock = FakeClock(0)
        self.made = Discovery(lookupds, "t", Config(**options), self.clock, SystemChance(1))

    def wait(self) -> float:
        """Until the next round; how long that was, in seconds."""
        assert self.made.due is not None
        waited = self.made.due - self.clock.monotonic_ns()
        self.clock.advance(max(0, waited))
        return waited / SECOND


def test_nobody_to_ask() -> None:
    case = Case()
    assert case.made.due is None
    case.made.soon()
    assert case.made.due is None
    assert case.made.begin() == []


@pytest.mark.parametrize(("given", "seconds"), [(0.0, 3600.0), (-1.0, 3600.0), (0.5, 0.5)])
def test_no_time_out_is_a_long_one(given: float, seconds: float) -> None:
    assert Case("one:4161", lookupd_poll_timeout=given).made.timeout_s == seconds


def test_at_once_then_by_chance_then_every_interval() -> None:
    case = Case("one:4161", "two:4161")
    assert case.wait() == 0
    assert case.made.begin() == [ONE, TWO]
    assert case.made.begin() == []
    for url in (ONE, TWO):
        case.made.answered(url)
    assert 60 <= case.wait() < 60 + 0.3 * 60
    assert case.made.begin() == [ONE, TWO]
    assert case.wait() == 60


def test_consumers_started_together_spread() -> None:
    waits = set()
    for seed in range(5):
        case = Case("one:4161")
        case.made._chance = SystemChance(seed)
        case.made.begin()
        waits.add(case.wait())
    assert len(waits) == 5


def test_one_that_hangs_holds_up_nobody() -> None:
    case = Case("one:4161", "two:4161")
    case.made.begin()
    case.made.answered(TWO)
    case.wait()
    assert case.made.begin() == [TWO]
    case.made.answered(ONE)
    case.wait()
    assert case.made.begin() == [ONE]


def test_soon_but_not_all_the_time() -> None:
    case = Case("one:4161")
    case.made.begin()
    case.made.answered(ONE)
    case.made.soon()
    assert case.wait() == 1
    assert case.made.begin() == [ONE]
    case.made.answered(ONE)
    case.clock.advance(SECOND)
    case.made.soon()
    assert case.wait() == 0


def test_after_a_loss_ever_less_often() -> None:
    case = Case("one:4161")
    case.made.begin()
    case.made.answered(ONE)
    case.wait()
    case.made.soon()
    waits = []
    for _ in range(9):
        waits.append(case.wait())
        case.made.begin()
        case.made.answered(ONE)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_when_nobody_answers_they_are_asked_before_long() -> None:
    case = Case("one:4161", "two:4161")
    waits = []
    for _ in range(8):
        case.made.begin()
        case.made.failed(ONE)
        case.made.failed(TWO)
        waits.append(case.wait())
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_one_answer_is_enough() -> None:
    case = Case("one:4161", "two:4161")
    case.made.begin()
    case.made.answered(ONE)
    case.made.failed(TWO)
    assert case.wait() >= 60


def test_the_secret() -> None:
    accept = {"Accept": "application/vnd.nsq; version=1.0"}
    assert Case("one:4161").made.headers == accept
    secret = Case("one:4161", auth_secret="s").made.headers
    assert secret == {**accept, "Authorization": "Bearer s"}
    kept = Case("one:4161", auth_secret="s", skip_lookupd_authorization=False).made.headers
    assert kept == accept


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("one:4161", ONE),
        ("http://one:4161/", ONE),
        ("https://one:4161", "https://one:4161/lookup?topic=t"),
        ("one:4161/foo?a=b", "http://one:4161/foo?a=b&topic=t"),
    ],
)
def test_urls(address: str, url: str) -> None:
    assert checked_url(address, "t") == url


@pytest.mark.parametrize("address", ["one", "http://one/", "one:many"])
def test_bad_urls(address: str) -> None:
    with pytest.raises(ValueError, match=r"port|Port"):
        checked_url(address, "t")
