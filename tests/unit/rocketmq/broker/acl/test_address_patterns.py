"""Patterns of addresses."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.acl.address_patterns import AddressPattern

MATCHES = [
    ("*", "1.2.3.4", True),
    ("*", "@", True),
    ("*.*.*.*", "1.2.3.4", True),
    ("*:*:*:*:*:*:*:*", "::1", True),
    ("", "1.2.3.4", False),
    ("  ", "1.2.3.4", False),
    ("1.2.3.4", "1.2.3.4", True),
    (" 1.2.3.4 ", "1.2.3.4", True),
    ("1.2.3.4", "1.2.3.40", False),
    ("1.2.3.4", "no address", False),
    ("10.10.103.*", "10.10.103.0", True),
    ("10.10.103.*", "10.10.103.255", True),
    ("10.10.103.*", "10.10.10.3", False),
    ("10.10.1-9.*", "10.10.9.7", True),
    ("10.10.1-9.*", "10.10.10.7", False),
    ("10.10.1.5-7", "10.10.1.6", True),
    ("10.10.1.5-7", "10.10.1.8", False),
    ("10.0.0.{1,2, 30}", "10.0.0.30", True),
    ("10.0.0.{1,2,30}", "10.0.0.3", False),
    ("10.0.0.1,10.0.1.*", "10.0.1.9", True),
    ("10.0.0.1,10.0.1.*", "10.0.0.2", False),
    ("::1", "::1", True),
    ("::1", "0:0:0:0:0:0:0:1", True),
    ("::1", "::2", False),
    ("1:2::*", "1:2::abcd", True),
    ("1:2::*", "1:3::abcd", False),
    ("1:2:3:4:5:6:7:10-1F", "1:2:3:4:5:6:7:1a", True),
    ("1:2:3:4:5:6:7:10-1F", "1:2:3:4:5:6:7:20", False),
    ("1:2:3:4:5:6:7:{8,9}", "1:2:3:4:5:6:7:9", True),
    ("1.2.3.4", "::102:304", False),
]


@pytest.mark.parametrize(("pattern", "address", "wanted"), MATCHES)
def test_matches(pattern: str, address: str, wanted: bool) -> None:
    assert AddressPattern(pattern).matches(address) is wanted


@pytest.mark.parametrize(
    "pattern",
    ["1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.9-5", "1.2.3.-5", "a.b.c.d", "1.2.3.{4", "{1,2}",
     "1.2.3.x{4}", "1:2:3", "1:2:3:4:5:6:7:fffff", "localhost", "1.2.3.4/8"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        AddressPattern(pattern)
