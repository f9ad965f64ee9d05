from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from penstock.admin.options import AdminOptions
from penstock.admin.permissions import Access, remote_ip
from penstock.core.errors import ConfigError
from penstock.net.http.server.api import ApiError
from penstock.net.http.server.service import Request
from tests.http_heads import parse_head


def request(*headers: str, remote: str = "127.0.0.1:5") -> Request:
    lines = ["GET / HTTP/1.1", "Host: h", *headers]
    return Request(parse_head("\r\n".join([*lines, "", ""]).encode()), "", b"", lambda: remote)


def access(**options: Any) -> Access:
    return Access(AdminOptions(**options))


ALICE = "X-Forwarded-User: alice"


def test_without_a_list_everybody_may() -> None:
    assert access().is_admin(request())
    assert access(trusted_proxies=("10.0.0.0/8",)).is_admin(request())


@pytest.mark.parametrize(
    ("header", "allowed"),
    [(ALICE, True), ("x-forwarded-user: alice", True), ("X-Forwarded-User: Alice", False),
     ("X-Forwarded-User: eve", False), ("X-Forwarded-User:", False), ("X-Other: alice", False),
     ("X-Forwarded-User: alice,eve", False)],
)  # fmt: skip
def test_who_may(header: str, allowed: bool) -> None:
    rules = access(admin_users=("alice", "bob"))
    assert rules.is_admin(request(header)) == allowed
    if not allowed:
        with pytest.raises(ApiError, match="FORBIDDEN"):
            rules.check_admin(request(header))


@pytest.mark.parametrize("other", ["alice", "eve", ""])
def test_a_header_that_comes_twice_is_nobodys(other: str) -> None:
    """One of them may be a client's, which the proxy did not take away."""
    rules = access(admin_users=("alice",))
    repeated = f"x-forwarded-user: {other}"
    assert not rules.is_admin(request(ALICE, repeated))
    assert not rules.is_admin(request(repeated, ALICE))
    assert rules.is_admin(request(ALICE, "X-Other: a", "X-Other: b"))


def test_an_empty_name_is_nobody() -> None:
    rules = access(admin_users=("",))
    assert not rules.is_admin(request())
    assert not rules.is_admin(request("X-Forwarded-User:"))


def test_another_header() -> None:
    rules = access(admin_users=("alice",), acl_http_header="X-Remote-User")
    assert rules.is_admin(request("x-remote-user: alice"))
    assert not rules.is_admin(request(ALICE))


@pytest.mark.parametrize(
    ("remote", "allowed"),
    [("10.1.2.3:4", True), ("[fd00::1]:4", True), ("127.0.0.1:4", False), ("@", False)],
)
def test_a_forged_header(remote: str, allowed: bool) -> None:
    """Only proxies of these networks are believed."""
    rules = access(admin_users=("alice",), trusted_proxies=("10.0.0.0/8", "fd00::/8"))
    assert rules.is_admin(request(ALICE, remote=remote)) == allowed


@pytest.mark.parametrize(
    ("cidr", "remote", "refusal"),
    [
        ("127.0.0.1/8", "127.9.9.9:1", ""),
        ("10.0.0.0/8", "127.0.0.1:1", "FORBIDDEN"),
        ("10.0.0.0/8", "[::1]:1", "FORBIDDEN"),
        ("::1/128", "[::1]:1", ""),
        ("10.0.0.0/8", "@", "INVALID_REMOTE_ADDR"),
        ("", "@", ""),
    ],
)
def test_config(cidr: str, remote: str, refusal: str) -> None:
    rules = access(allow_config_from_cidr=cidr)
    if not refusal:
        rules.check_config(request(remote=remote))
        return
    with pytest.raises(ApiError, match=refusal):
        rules.check_config(request(remote=remote))


@pytest.mark.parametrize("cidr", ["xx", "127.0.0.1", "1.2.3.4/33", "1.2.3.4/255.0.0.0", "/8"])
def test_networks_that_are_none(cidr: str) -> None:
    with pytest.raises(ConfigError) as raised:
        access(allow_config_from_cidr=cidr)
    expected = f"failed to parse --allow-config-from-cidr ({cidr}) - invalid CIDR address: {cidr}"
    assert str(raised.value) == expected
    with pytest.raises(ConfigError, match="--trusted-proxy"):
        access(trusted_proxies=(cidr,))


def test_remote_addresses() -> None:
    assert remote_ip("[fe80::1%lo]:1") == ipaddress.ip_address("fe80::1")
    assert remote_ip("1.2.3.4:1") == ipaddress.ip_address("1.2.3.4")
