"""Who may change what, what bodies of changes say, and what is told about them."""

from __future__ import annotations

import base64
import ipaddress
import os
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.admin.actions_api import read_strings
from penstock.admin.admin_options import AdminOptions
from penstock.admin.notifications import Action, described
from penstock.admin.permissions import Access, remote_ip
from penstock.core.errors import ConfigError
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError
from tests.http_heads import parse_head


def request(*headers: str, remote: str = "127.0.0.1:5", target: str = "/api/topics") -> Request:
    lines = [f"POST {target} HTTP/1.1", "Host: h:1", *headers]
    head = parse_head("\r\n".join([*lines, "", ""]).encode())
    return Request(head, "", b"", lambda: remote)


def access(**options: Any) -> Access:
    return Access(AdminOptions(**options))


USER = "X-Forwarded-User: "
ADMINS: dict[str, Any] = {"admin_users": ("alice", "bob")}
PROXIES: dict[str, Any] = {"trusted_proxies": ("10.0.0.0/8", "fd00::/8")}


@pytest.mark.parametrize(
    ("options", "headers", "allowed"),
    [
        ({}, [], True),  # without a list everybody may
        (PROXIES, [], True),
        (ADMINS, [USER + "alice"], True),
        (ADMINS, ["x-forwarded-user: alice"], True),
        (ADMINS, [USER + "alice", "X-Other: a", "X-Other: b"], True),
        (ADMINS, [USER + "Alice"], False),
        (ADMINS, [USER + "eve"], False),
        (ADMINS, ["X-Forwarded-User:"], False),
        (ADMINS, ["X-Other: alice"], False),
        (ADMINS, [USER + "alice,eve"], False),
        # Of a header that comes twice one may be a client's, which the proxy did not take away.
        *(
            (ADMINS, [USER + "alice", USER.lower() + other], False)
            for other in ("alice", "eve", "")
        ),
        *((ADMINS, [USER.lower() + other, USER + "alice"], False) for other in ("eve", "")),
        ({"admin_users": ("",)}, [], False),
        ({"admin_users": ("",)}, ["X-Forwarded-User:"], False),
        (ADMINS | {"acl_http_header": "X-Remote-User"}, ["x-remote-user: alice"], True),
        (ADMINS | {"acl_http_header": "X-Remote-User"}, [USER + "alice"], False),
    ],
)
def test_who_may(options: dict[str, Any], headers: list[str], allowed: bool) -> None:
    rules = access(**options)
    assert rules.is_admin(request(*headers)) == allowed
    with nullcontext() if allowed else pytest.raises(ApiError, match="FORBIDDEN"):
        rules.check_admin(request(*headers))


@pytest.mark.parametrize(
    ("remote", "allowed"),
    [("10.1.2.3:4", True), ("[fd00::1]:4", True), ("127.0.0.1:4", False), ("@", False)],
)
def test_only_proxies_are_believed(remote: str, allowed: bool) -> None:
    asked = request(USER + "alice", remote=remote)
    assert access(**ADMINS, **PROXIES).is_admin(asked) == allowed
    assert remote_ip("[fe80::1%lo]:1") == ipaddress.ip_address("fe80::1")


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
    with pytest.raises(ApiError, match=refusal) if refusal else nullcontext():
        rules.check_config(request(remote=remote))


@pytest.mark.parametrize("cidr", ["xx", "127.0.0.1", "1.2.3.4/33", "1.2.3.4/255.0.0.0", "/8"])
def test_networks_that_are_none(cidr: str) -> None:
    with pytest.raises(ConfigError) as raised:
        access(allow_config_from_cidr=cidr)
    expected = f"failed to parse --allow-config-from-cidr ({cidr}) - invalid CIDR address: {cidr}"
    assert str(raised.value) == expected
    with pytest.raises(ConfigError, match="--trusted-proxy"):
        access(trusted_proxies=(cidr,))


BOTH = ("topic", "channel")
MISFIT = "json: cannot unmarshal {} into Go struct field .{} of type string"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"topic":"t","channel":"c"}', ["t", "c"]),
        (b' \n{"TOPIC":"t"} what follows', ["t", ""]),
        (b'{"topic":"a","topic":"t","other":[{"topic":1}]}', ["t", ""]),
        (b'{"topic":null,"channel":"c"}', ["", "c"]),
        (b"null", ["", ""]),
        (b"{}", ["", ""]),
        (b'{"topic":"\xff"}', ["\ufffd", ""]),
        (b'{"topic":"\\ud800"}', ["?", ""]),
    ],
)
def test_what_is_read(body: bytes, found: list[str]) -> None:
    assert read_strings(body, BOTH) == found


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "EOF"),
        (b" \n", "EOF"),
        (b"{", "unexpected EOF"),
        (b'{"topic"', "unexpected EOF"),
        (b'{"topic":', "unexpected EOF"),
        (b'{"topic":"t', "unexpected EOF"),
        (b'{"topic":"t"', "unexpected EOF"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b"{topic:1}", "invalid character 't' looking for beginning of object key string"),
        (b'{"topic" 1}', "invalid character '1' after object key"),
        (b'{"topic":"t" x}', "invalid character 'x' after object key:value pair"),
        (b'{"topic":"a\nb"}', "invalid character '\\n' in string literal"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b'{"topic":1}', MISFIT.format("number", "topic")),
        (b'{"channel":[]}', MISFIT.format("array", "channel")),
        (b'{"topic":{}}', MISFIT.format("object", "topic")),
        (b"[1]", 'json: cannot unmarshal array into Go value of type struct { Topic string '
         '"json:\\"topic\\""; Channel string "json:\\"channel\\"" }'),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)  # fmt: skip
def test_gos_words_for_what_is_wrong(body: bytes, text: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_strings(body, BOTH)
    assert str(raised.value) == text


def test_what_receivers_read() -> None:
    user = base64.b64encode(b"user:pass").decode()
    asked = request(
        f"Authorization: Basic {user}", "User-Agent: ua", "X-Scheme: https",
        target="/api/topics/t%23ephemeral/c?x=1",
    )  # fmt: skip
    found = described(Action("pause_channel", "t#ephemeral", "c"), asked, 7)
    assert list(found.items()) == [
        ("action", "pause_channel"), ("topic", "t#ephemeral"), ("channel", "c"), ("timestamp", 7),
        ("user", "user"), ("remote_ip", "127.0.0.1:5"), ("user_agent", "ua"),
        ("url", "https://h:1/api/topics/t%23ephemeral/c?x=1"), ("via", os.uname().nodename),
    ]  # fmt: skip


@pytest.mark.parametrize("authorization", ["Basic", "Basic !", "Basic dQ==", "Bearer dTpw", "x"])
def test_no_user(authorization: str) -> None:
    found = described(Action("a", "t", node="n"), request(f"Authorization: {authorization}"), 7)
    assert list(found)[:5] == ["action", "topic", "node", "timestamp", "remote_ip"]
    assert found["user_agent"] == ""
