"""Hosts, message ids and Java's hash."""

from __future__ import annotations

import pytest

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host, OffsetId, host_digits, java_hash


@pytest.mark.parametrize("text", ["10.0.0.2:10911", "[::1]:10911", "[2001:db8::7]:0"])
def test_hosts(text: str) -> None:
    host = Host.parse(text)
    assert str(host) == text
    assert OffsetId.parse(str(OffsetId(host, 1000))) == (host, 1000)


def test_offset_id() -> None:
    text = "0A00000200002A9F00000000000003E8"
    assert OffsetId.parse(text) == (Host.parse("10.0.0.2:10911"), 1000)
    assert OffsetId.parse(text.lower()) == OffsetId.parse(text)
    assert len(str(OffsetId(Host.parse("[::1]:1"), 1))) == 56


@pytest.mark.parametrize("text", ["", "0", "zz" * 16, "0A" * 15, "0A" * 17, " " * 32, "0a " * 28])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(BodyError, match="no message id"):
        OffsetId.parse(text)


def test_java_hash() -> None:
    assert java_hash("TagA") == 2598919
    assert java_hash("TagB") == 2598920
    assert java_hash("") == 0
    assert java_hash("Aa") == java_hash("BB")
    assert java_hash("polygenelubricants") == -2147483648
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_the_host_of_a_socket() -> None:
    assert Host.of("10.1.2.3", 5) == Host(bytes((10, 1, 2, 3)), 5)
    assert Host.of("::ffff:10.1.2.3", 5) == Host(bytes((10, 1, 2, 3)), 5)
    assert Host.of("fe80::1%eth0", 5).is_ipv6


def test_ids_of_one_broker_begin_alike() -> None:
    host = Host(b"\x7f\x00\x00\x01", 10911)
    assert str(OffsetId(host, 1000)) == host_digits(host) + "00000000000003E8"
    assert host_digits(host) == "7F00000100002A9F"
