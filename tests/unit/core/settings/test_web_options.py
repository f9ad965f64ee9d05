from __future__ import annotations

import pytest

from penstock.core.settings.web_options import HOSTS, ORIGINS


@pytest.mark.parametrize(
    "text", ["http://a", "https://a.b:8443", "chrome-extension://abc", "http://[::1]:80", "*"]
)
def test_origins(text: str) -> None:
    assert ORIGINS.from_flag(text) == ORIGINS.from_config([text]) == (text,)


@pytest.mark.parametrize("text", ["localhost", "a.b:8443", "127.0.0.1", "[::1]", "[::1]:80"])
def test_hosts(text: str) -> None:
    assert HOSTS.from_flag(text) == HOSTS.from_config(text) == (text,)


@pytest.mark.parametrize("text", ["", "a", "http://a/", "http://a/b", "http://u@a", "null", "**"])
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an origin is <scheme>"):
        ORIGINS.from_flag(text)


@pytest.mark.parametrize("text", ["", "http://a", "a/b", "::1", "a:b", "a b"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a host is <name>"):
        HOSTS.from_config([text])
