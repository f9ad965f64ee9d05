from __future__ import annotations

import pytest

from penstock.cluster.semver import LOWEST, parse


def test_the_order_of_versions() -> None:
    rising = ["0.0.1", "1.2.0-1", "1.2.0-2", "1.2.0-11", "1.2.0-alpha", "1.2.0-alpha.1",
              "1.2.0-beta", "1.2.0", "1.2.1", "1.10.0", "2.0.0"]  # fmt: skip
    parsed = [parse(each) for each in rising]
    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


def test_a_build_does_not_count() -> None:
    assert parse("1.3.0+x.7") == parse("1.3.0")


@pytest.mark.parametrize(
    "text", ["", "weird", "1.3", "v1.3.0", "01.3.0", "1.3.0\n", "1.3.0-", "9" * 300 + ".0.0"]
)
def test_what_is_none_is_the_lowest(text: str) -> None:
    assert parse(text) == LOWEST == parse("0.0.0")
