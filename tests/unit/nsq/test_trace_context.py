"""Identifiers of spans: fixed for good, as consumers in other languages compute them too."""

from __future__ import annotations

import re

import pytest

from penstock.nsq.trace_context import delivery_span, publish_span, traceparent

MESSAGE = 0x0400000000000007


def test_known_identifiers() -> None:
    publish = publish_span("orders", MESSAGE)
    first = delivery_span("orders", "billing", MESSAGE, 1)
    assert f"{publish.trace_id:032x}" == "b323fc52e3cde0b07a0a4a5ffa8669a7"
    assert f"{publish.span_id:016x}" == "622663bc6a78bb7e"
    assert f"{first.trace_id:032x}" == "b323fc52e3cde0b07a0a4a5ffa8669a7"
    assert f"{first.span_id:016x}" == "208804379bdac21c"


def test_each_delivery_has_a_span_of_its_own() -> None:
    spans = {
        delivery_span(topic, channel, message, attempts)
        for topic in ("orders", "refunds")
        for channel in ("billing", "mail")
        for message in (7, 8)
        for attempts in (1, 2)
    }
    assert len({span.span_id for span in spans}) == 16
    assert len({span.trace_id for span in spans}) == 4


def test_the_header_of_a_received_message() -> None:
    expected = "00-b323fc52e3cde0b07a0a4a5ffa8669a7-208804379bdac21c-01"
    assert traceparent("orders", "billing", b"0400000000000007", 1) == expected
    assert traceparent("orders", "billing", "0400000000000007", 1) == expected


@pytest.mark.parametrize(
    ("message_id", "every", "flags"),
    [
        ("0400000000000007", 7, "00"),
        ("0400000000000000", 1024, "01"),
        ("0000000000000007", 0, "00"),
    ],
)
def test_only_traced_messages_are_sampled(message_id: str, every: int, flags: str) -> None:
    header = traceparent("orders", "billing", message_id, 1, every)
    assert re.fullmatch(rf"00-[0-9a-f]{{32}}-[0-9a-f]{{16}}-{flags}", header)


@pytest.mark.parametrize("message_id", ["7", b"", "040000000000000x", "AC1100010000000000000000"])
def test_other_ids_are_refused(message_id: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"message id|invalid literal"):
        traceparent("orders", "billing", message_id, 1)
