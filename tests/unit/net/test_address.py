from __future__ import annotations

from typing import Any

import pytest

from penstock.net.address import host_of, join_host_port, show_address, split_host_port


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:4150", ("127.0.0.1", 4150)),
        (":0", ("", 0)),
        ("[::1]:80", ("::1", 80)),
        ("box.example:65535", ("box.example", 65535)),
    ],
)
def test_split(address: str, parts: tuple[str, int]) -> None:
    assert split_host_port(address) == parts


@pytest.mark.parametrize("address", ["", "host", "::1:80", "h:", "h:x", "h:+1", "h:70000", "h: 1"])
def test_split_refuses(address: str) -> None:
    with pytest.raises(ValueError):
        split_host_port(address)


def test_join() -> None:
    assert join_host_port("::1", 1) == "[::1]:1"
    assert join_host_port("h", 1) == "h:1"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (("127.0.0.1", 5), "127.0.0.1:5"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1:5"),
        (("::", 5, 0, 0), "[::]:5"),
        ("/tmp/x.sock", "/tmp/x.sock"),
        ("", "@"),
        (b"/x", "/x"),
        (None, "@"),
    ],
)
def test_show(address: Any, shown: str) -> None:
    assert show_address(address) == shown


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (("127.0.0.1", 5), "127.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("::1", 5, 0, 0), "::1"),
        ("/tmp/x:1.sock", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_host(address: Any, host: str) -> None:
    assert host_of(address) == host
