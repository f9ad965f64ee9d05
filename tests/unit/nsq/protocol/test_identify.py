"""IDENTIFY: order of checks, what is kept, what is granted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.identify import Features, Identity, identify, negotiate
from penstock.nsq.protocol.limits import Limits

LIMITS = Limits()
NOBODY = Identity.unknown("10.0.0.1", LIMITS)


def ask(**fields: object) -> Identity:
    return identify(json.dumps(fields).encode(), LIMITS, NOBODY)


def refusal(**fields: object) -> str:
    with pytest.raises(ProtocolError) as caught:
        ask(**fields)
    assert caught.value.code == "E_BAD_BODY"
    return caught.value.text.removeprefix("E_BAD_BODY IDENTIFY ")


def test_nothing_asked_keeps_all_but_the_names() -> None:
    identity = ask()
    assert identity.client_id == identity.hostname == ""
    assert NOBODY.client_id == NOBODY.hostname == "10.0.0.1"
    assert identity.heartbeat_interval == 30 * SECOND
    assert identity.output_buffer_size == 16384
    assert identity.output_buffer_timeout == 250 * MILLISECOND
    assert identity.msg_timeout == 60 * SECOND


def test_a_later_identify_keeps_what_an_earlier_one_set() -> None:
    first = ask(heartbeat_interval=1000, msg_timeout=2000, sample_rate=5, output_buffer_size=64)
    second = identify(b"null", LIMITS, first)
    assert (second.heartbeat_interval, second.msg_timeout) == (SECOND, 2 * SECOND)
    assert (second.sample_rate, second.output_buffer_size) == (0, 64)


@pytest.mark.parametrize(
    ("field", "good", "bad", "what"),
    [
        ("heartbeat_interval", [-1, 0, 1000, 60000], [-2, 999, 60001], "heartbeat interval"),
        ("output_buffer_timeout", [-1, 0, 25, 30000], [-2, 1, 24, 30001], "output buffer timeout"),
        ("output_buffer_size", [-1, 0, 64, 65536], [-2, 63, 65537], "output buffer size"),
        ("sample_rate", [0, 99], [-1, 100], "sample rate"),
        ("msg_timeout", [0, 1000, 900000], [-1, 999, 900001], "msg timeout"),
    ],
)
def test_ranges(field: str, good: list[int], bad: list[int], what: str) -> None:
    for value in good:
        ask(**{field: value})
    for value in bad:
        assert refusal(**{field: value}) == f"{what} ({value}) is invalid"


def test_minus_one_turns_off() -> None:
    assert ask(heartbeat_interval=-1).heartbeat_interval == 0
    assert ask(output_buffer_timeout=-1).output_buffer_timeout == 0
    unbuffered = ask(output_buffer_size=-1, output_buffer_timeout=100)
    assert (unbuffered.output_buffer_size, unbuffered.output_buffer_timeout) == (1, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'"x"', b"1", b"{} {}", b'{"msg_timeout": 1000.0}',
        b'{"msg_timeout": "1000"}', b'{"msg_timeout": true}', b'{"tls_v1": 1}',
        b'{"client_id": 5}', b'{"sample_rate": 2147483648}',
        b'{"msg_timeout": 9223372036854775808}',
    ],
)  # fmt: skip
def test_bad_json(body: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^E_BAD_BODY IDENTIFY failed to decode JSON body$"):
        identify(body, LIMITS, NOBODY)


@given(
    st.binary(max_size=50)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.dictionaries(
            st.sampled_from(["msg_timeout", "Client_ID", "deflate"]), inner
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_anything_is_an_identity_or_a_protocol_error(body: bytes) -> None:
    try:
        identity = identify(body, LIMITS, NOBODY)
    except ProtocolError:
        return
    negotiate(identity, Features("1.3.0"), LIMITS)


def test_no_negotiation_no_upgrade() -> None:
    answer = negotiate(ask(snappy=True, deflate=True, tls_v1=True), Features("1.3.0"), LIMITS)
    assert answer.response == b"OK"
    assert (answer.tls_v1, answer.deflate, answer.snappy) == (False, False, False)


@pytest.mark.parametrize(
    ("deflate", "asked", "most", "level"),
    [(True, 0, 6, 6), (True, 3, 6, 3), (True, 9, 6, 6), (False, 3, 6, 6), (False, 0, 3, 3)],
)
def test_deflate_level(deflate: bool, asked: int, most: int, level: int) -> None:
    identity = ask(feature_negotiation=True, deflate=deflate, deflate_level=asked)
    answer = negotiate(identity, Features("1.3.0", max_deflate_level=most), LIMITS)
    assert (answer.deflate, answer.deflate_level) == (deflate, level)
    assert json.loads(answer.response)["deflate_level"] == level


@pytest.mark.parametrize("offered", [True, False])
def test_upgrades_need_both_sides(offered: bool) -> None:
    wishes = ask(feature_negotiation=True, tls_v1=True, snappy=True)
    answer = negotiate(wishes, Features("1.3.0", tls_v1=offered, snappy=offered), LIMITS)
    assert (answer.tls_v1, answer.snappy) == (offered, offered)


def test_one_compression_only() -> None:
    wishes = ask(feature_negotiation=True, deflate=True, snappy=True)
    with pytest.raises(ProtocolError) as caught:
        negotiate(wishes, Features("1.3.0"), LIMITS)
    assert caught.value.text == (
        "E_IDENTIFY_FAILED cannot enable both deflate and snappy compression"
    )
    assert negotiate(wishes, Features("1.3.0", snappy=False), LIMITS).deflate
