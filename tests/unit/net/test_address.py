"""Addresses, and why what is there cannot be reached."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from penstock.net.address import host_of, join_host_port, show_address, split_host_port
from penstock.net.outgoing import connect_error_text, connect_target, local_target


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


# --- Why a node could not be reached -------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('h', 1)"),
         "dial tcp h:1: connect: connection refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
                 "[Errno 111] Connect call failed ('127.0.0.1', 1)"),
         "dial tcp h:1: connect: connection refused"),
        (TimeoutError(), "dial tcp h:1: i/o timeout"),
        (TimeoutError("timed out"), "dial tcp h:1: i/o timeout"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "dial tcp h:1: connect: connection timed out"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
         "dial tcp: lookup h: no such host"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
         "dial tcp: lookup h: temporary failure in name resolution"),
        (OSError(errno.EADDRNOTAVAIL, "error while attempting to bind on address ('9.9.9.9', 0)"),
         "dial tcp h:1: bind: cannot assign requested address"),
        (OSError("strange"), "dial tcp h:1: connect: strange"),
        (UnicodeError("label empty or too long"), "dial tcp: lookup h: no such host"),
    ],
)  # fmt: skip
def test_the_words_of_gos_dialer(error: OSError | UnicodeError, reason: str) -> None:
    assert connect_error_text("h:1", error) == reason


def test_targets() -> None:
    assert connect_target("[::1]:4150") == ("::1", 4150)
    assert connect_target(":4150") == ("localhost", 4150)
    assert local_target("") is None
    assert local_target(":0") == ("0.0.0.0", 0)
    assert local_target("127.0.0.2:0") == ("127.0.0.2", 0)
