"""Looking at options and changing them, of any daemon."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import ApiError
from penstock.nsq.config_page import ConfigPage
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from tests.http_heads import parse_head


class Page(ConfigPage):
    def __init__(self) -> None:
        super().__init__(NsqdOptions(), "nsqlookupd_tcp_addresses", frozenset(("version",)))
        self.lookupds: tuple[str, ...] = ("before:1",)

    def set_lookupds(self, addresses: tuple[str, ...]) -> None:
        self.lookupds = addresses

    def resolved(self, name: str, value: Any) -> Any:
        return value


def told(answer: Response) -> Any:
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def request(name: str, body: bytes = b"") -> Request:
    return Request(parse_head(b"GET /config HTTP/1.0\r\n\r\n"), name, body, str)


def test_addresses_are_replaced() -> None:
    page = Page()
    assert told(page.put(request("nsqlookupd_tcp_addresses", b'["a:1"]'))) == ["a:1"]
    assert page.lookupds == ("a:1",)
    assert page.put(request("nsqlookupd_tcp_addresses", b"null")).body == b"null"
    assert page.lookupds == ()


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("nsqlookupd_tcp_addresses", b"[1]", 400),
        ("nsqlookupd_tcp_addresses", b"{", 400),
        ("nsqlookupd_tcp_addresses", b"", 413),
        ("log_level", b"loud", 400),
        ("log_level", b"\xff", 400),
        ("msg_timeout", b"1s", 400),
    ],
)
def test_refused(name: str, body: bytes, status: int) -> None:
    page = Page()
    with pytest.raises(ApiError) as refused:
        page.put(request(name, body))
    assert refused.value.status == status
    assert page.lookupds == ("before:1",)


def test_what_is_hidden_is_no_option() -> None:
    with pytest.raises(ApiError):
        Page().get(request("version"))
