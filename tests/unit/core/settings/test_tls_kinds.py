from __future__ import annotations

import pytest

from penstock.core.settings.tls_kinds import TLS_MIN_VERSION, TLS_REQUIRED, TlsRequired


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", TlsRequired.YES),
        ("TRUE", TlsRequired.YES),
        ("0", TlsRequired.NO),
        ("TCP-HTTPS", TlsRequired.EXCEPT_HTTP),
    ],
)
def test_tls_required(text: str, value: TlsRequired) -> None:
    assert TLS_REQUIRED.from_flag(text) is value
    assert TLS_REQUIRED.from_config(text) is value


def test_tls_required_refuses_and_shows() -> None:
    with pytest.raises(ValueError) as caught:
        TLS_REQUIRED.from_flag("maybe")
    assert str(caught.value) == 'strconv.ParseBool: parsing "maybe": invalid syntax'
    assert TLS_REQUIRED.from_config(True) is TlsRequired.YES
    assert TLS_REQUIRED.show(TlsRequired.EXCEPT_HTTP) == "1"
    assert TLS_REQUIRED.show_default(TlsRequired.NO) == ""
    assert TLS_REQUIRED.show_default(TlsRequired.EXCEPT_HTTP) == "tcp-https"


@pytest.mark.parametrize(("text", "number"), [("", 769), ("tls1.0", 769), ("TLS1.3", 772)])
def test_tls_min_version(text: str, number: int) -> None:
    assert TLS_MIN_VERSION.from_flag(text) == number
    assert TLS_MIN_VERSION.from_config(text) == number


@pytest.mark.parametrize("text", ["ssl3.0", "tls1.4"])
def test_tls_min_version_refuses(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        TLS_MIN_VERSION.from_flag(text)
    assert str(caught.value) == f'unknown tlsVersionOption "{text}"'
    assert TLS_MIN_VERSION.show_default(770) == "tls1.1"
