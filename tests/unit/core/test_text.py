"""Texts that people read or write: numbers, names, times, quotes, reasons, secrets."""

from __future__ import annotations

import errno
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.counted import counted
from penstock.core.errors import (
    OffsetOutOfRangeError,
)
from penstock.core.moments import rfc3339
from penstock.core.names import is_ephemeral, is_valid_name
from penstock.core.nearest import did_you_mean
from penstock.core.quote import quote
from penstock.core.reasons import lookup_words, reason, system_words
from penstock.core.redaction import without_secrets, without_user
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("1m30s", 90 * SECOND),
        ("250ms", 250 * MILLISECOND),
        ("1.5h", 90 * MINUTE),
        (".5s", 500 * MILLISECOND),
        ("1.s", SECOND),
        ("-1m", -MINUTE),
        ("+5s", 5 * SECOND),
        ("3us", 3_000),
        ("3µs", 3_000),
        ("3μs", 3_000),
        ("7ns", 7),
        ("1h1m1s1ms1us1ns", HOUR + MINUTE + SECOND + MILLISECOND + 1_001),
        ("0.9999999999s", 999_999_999),
        ("9223372036854775807ns", (1 << 63) - 1),
        ("-9223372036854775808ns", -(1 << 63)),
    ],
)
def test_parse_duration(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("abc", 'time: invalid duration "abc"'),
        (".s", 'time: invalid duration ".s"'),
        ("-", 'time: invalid duration "-"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ('5"', 'time: unknown unit "\\"" in duration "5\\""'),
        ("5é", 'time: unknown unit "\\xc3\\xa9" in duration "5\\xc3\\xa9"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_parse_refuses_with_gos_text(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (85_968, "85.968µs"),
        (2_200_000, "2.2ms"),
        (SECOND, "1s"),
        (1_500_000_000, "1.5s"),
        (MINUTE, "1m0s"),
        (90 * SECOND, "1m30s"),
        (HOUR, "1h0m0s"),
        (HOUR + 5, "1h0m0.000000005s"),
        (-90 * SECOND, "-1m30s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
    ],
)
def test_format_duration(ns: int, text: str) -> None:
    assert format_duration(ns) == text


@given(st.integers(-(1 << 63) + 1, (1 << 63) - 1))
def test_what_is_formatted_parses_back(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == ns


# --- Moments as text -----------------------------------------------------------------------------


def test_utc_with_microseconds() -> None:
    assert rfc3339(1_795_294_921_053_775_026) == "2026-11-21T21:02:01.053775Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000000Z"


# --- Plurals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (1_234_567, "1,234,567 messages")],
)
def test_a_noun_follows_its_number(number: int, said: str) -> None:
    assert counted(number, "message") == said


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"plain", '"plain"'),
        (b"", '""'),
        (b"it's", '"it\'s"'),
        (b'a"b\\c', '"a\\"b\\\\c"'),
        (b"\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        (b"\x00\x1f\x7f", '"\\x00\\x1f\\x7f"'),
        (b"\xff\xc3", '"\\xff\\xc3"'),
        ("é€🎉".encode(), '"é€🎉"'),
        ("\u00ad\u200b\u00a0".encode(), '"\\u00ad\\u200b\\u00a0"'),
        ("\x85".encode(), '"\\u0085"'),
        ("\U000e0001".encode(), '"\\U000e0001"'),
        ("\ufffd".encode(), '"\ufffd"'),
        (b"\xed\xa0\x80", '"\\xed\\xa0\\x80"'),
    ],
)
def test_quote(raw: bytes, quoted: str) -> None:
    assert quote(raw) == quoted


def test_text_is_taken_too() -> None:
    assert quote("a b") == '"a b"'


VALID = ["test", "valid_name", "test-with_period.", ".", "test#ephemeral", "a" * 64]
VALID += ["a" * 54 + "#ephemeral"]
INVALID = ["", "#ephemeral", "test:ephemeral", "test#temp", "invalid name with space", "a" * 65]
INVALID += ["a" * 55 + "#ephemeral", "a#ephemeral#ephemeral", "a\n", "é", "a\0"]


@pytest.mark.parametrize("name", [*VALID, *INVALID])
def test_names(name: str) -> None:
    assert is_valid_name(name) is is_valid_name(name.encode()) is (name in VALID)


VALID += ["a" * 54 + "#ephemeral"]


INVALID += ["a" * 55 + "#ephemeral", "a#ephemeral#ephemeral", "a\n", "é", "a\0"]


def test_ephemeral() -> None:
    assert is_ephemeral("a#ephemeral")
    assert not is_ephemeral("ephemeral")


# --- Names that people mistype, and what they meant ----------------------------------------------


def test_the_nearest_name_is_said_if_one_is_near() -> None:
    known = ("tcp_address", "http_address", "msg_timeout")
    assert did_you_mean("tcp_adress", known) == "; did you mean tcp_address?"
    assert did_you_mean("msg-timeuot", ("msg-timeout",), "-") == "; did you mean -msg-timeout?"
    assert did_you_mean("zzz", known) == did_you_mean("zzz", ()) == ""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection refused"),
        (socket.gaierror(-3, "Temporary failure"), "temporary failure"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect failed, [Errno 99] Cannot assign"),
            "Multiple exceptions: connect failed, cannot assign",
        ),
        (ValueError("no port"), "no port"),
        (TimeoutError(), "timed out"),
        (EOFError(), "EOFError"),
    ],
)
def test_reason(error: Exception, text: str) -> None:
    assert reason(error) == text


def test_a_file_that_is_missing() -> None:
    with pytest.raises(OSError) as failed:
        os.stat("/nowhere")
    assert reason(failed.value) == "no such file or directory: '/nowhere'"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect failed, [Errno 99] Cannot assign"),
            "cannot assign requested address",
        ),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), ""),
        (TimeoutError(), ""),
        (ValueError("no port"), ""),
    ],
)
def test_the_systems_words(error: Exception, words: str) -> None:
    assert system_words(error) == words


def test_hosts_that_are_not_found() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert lookup_words(unknown) == "no such host"
    assert lookup_words(socket.gaierror(-3, "Temporary failure")) == "temporary failure"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@h:1/x", "https://user:***@h:1/x"),
        ("https://:pass@h", "https://:***@h"),
        ("https://user:p@ss@h", "https://user:***@h"),
        ("https://user:p'a\"s=s@h/a@b", "https://user:***@h/a@b"),
        ("https://user:p/a?s#s@h/", "https://user:***@h/"),
        ("user:pass@h:4181", "user:***@h:4181"),
        ("--auth-http-address=user:pass@h:4181", "--auth-http-address=user:***@h:4181"),
        ("--graphite-url=http://user:pass@h", "--graphite-url=http://user:***@h"),
        ("GET http://u:p@h/x: refused", "GET http://u:***@h/x: refused"),
        ("['u:p@h', 'http://v:q@i']", "['u:***@h', 'http://v:***@i']"),
        ("http://h/auth?common_name=&secret=s3&tls=false", "http://h/auth?common_name=&secret=***&tls=false"),
        ("http://h/auth?Token=s3", "http://h/auth?Token=***"),
        ("auth_secret,s3 and more", "auth_secret,***"),
        ('value "auth-secret=s3 \\" more" for', 'value "auth-secret=***" for'),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "h:1", "[::1]:4150", "http://h/a@b", "http://h:80/a@b", "http://h:80?a=@b",
        "http://user@h/x", "2026/01/31 12:30:45 INFO: a@b", "http://h/?secrets=1", "",
    ],
)  # fmt: skip
def test_all_else_is_as_it_was(text: str) -> None:
    assert without_secrets(text) == text


def test_without_its_user_a_url_leads_to_the_same_place() -> None:
    assert without_user("https://user:p@ss@h:1/x@y?z=@") == "https://h:1/x@y?z=@"
    assert without_user("https://h/x@y") == "https://h/x@y"


def test_offset_out_of_range_says_what_there_is() -> None:
    error = OffsetOutOfRangeError("t", 0, 5, 10, 20)
    assert str(error) == "offset 5 of topic 't' queue 0 is outside [10, 20]"
    assert (error.topic, error.queue, error.offset, error.start, error.end) == ("t", 0, 5, 10, 20)
