"""Answers of HTTP servers, and of what is none."""

from __future__ import annotations

import pytest

from penstock.net.http.client.answer import AnswerReader, request_head
from penstock.net.http.client.not_http import NotHttpError

ANSWER = b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\nX-A: no\r\n\r\n" + ANSWER


def test_a_head() -> None:
    head = request_head("GET", "/a?b", {"Host": "h:1", "X-A": "ü"})
    assert head == "GET /a?b HTTP/1.1\r\nHost: h:1\r\nX-A: ü\r\n\r\n".encode()
    for bad in ("a\r\nB: c", "\x00", "\x7f"):
        with pytest.raises(ValueError, match="control character"):
            request_head("GET", "/", {"A": bad})


@pytest.mark.parametrize("answer", [ANSWER, CHUNKED, CONTINUED])
def test_cut_anywhere_it_is_the_same(answer: bytes) -> None:
    for cut in range(len(answer)):
        reader = AnswerReader("GET", 100)
        assert not reader.feed(answer[:cut])
        assert reader.began == (cut > 0)
        assert reader.feed(answer[cut:])
        assert reader.reusable
        whole = reader.answer()
        assert (whole.status, whole.body) == (200, b"ok")
        assert reader.headers.get("x-a", "b") == "b"


def test_an_answer_without_length_ends_with_the_connection() -> None:
    reader = AnswerReader("GET", 100)
    assert not reader.feed(b"HTTP/1.1 200 OK\r\n\r\nall of ")
    assert not reader.feed(b"it")
    assert reader.end()
    assert reader.answer().body == b"all of it"
    assert not reader.reusable


@pytest.mark.parametrize("half", [b"", b"HTTP/1.1 200 OK\r\nConte", ANSWER[:-1], CHUNKED[:-3]])
def test_half_an_answer(half: bytes) -> None:
    reader = AnswerReader("GET", 100)
    assert not reader.feed(half)
    assert not reader.end()


@pytest.mark.parametrize(
    ("answer", "reusable"),
    [
        (ANSWER, True),
        (ANSWER.replace(b"X-A: b", b"Connection: close"), False),
        (ANSWER.replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (ANSWER + ANSWER, False),
        (ANSWER + b"x", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
    ],
)
def test_whether_the_connection_can_be_used_again(answer: bytes, reusable: bool) -> None:
    reader = AnswerReader("GET", 100)
    assert reader.feed(answer)
    assert reader.reusable == reusable


def test_what_answers_a_head_request_has_no_body() -> None:
    reader = AnswerReader("HEAD", 100)
    assert reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(ValueError):
        AnswerReader("GET", 100).feed(data)


def test_limits() -> None:
    long = ANSWER.replace(b"Content-Length: 2", b"Content-Length: 101") + b"x" * 99
    with pytest.raises(ValueError, match="longer than 100 bytes"):
        AnswerReader("GET", 100).feed(long)
    with pytest.raises(ValueError, match="longer than 100 bytes"):
        AnswerReader("GET", 100, discard=True).feed(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)


def test_discarding_takes_what_is_known_for_enough() -> None:
    head = b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n"
    reader = AnswerReader("GET", 100, discard=True)
    assert reader.feed(head + b"x" * 101)
    assert (reader.status, reader.reusable) == (500, False)
    reader = AnswerReader("GET", 100, discard=True)
    assert not reader.feed(head)
    assert reader.end()
    reader = AnswerReader("GET", 100, discard=True)
    assert reader.feed(ANSWER)
    assert reader.reusable
    assert reader.answer().body == b""


# --- What is said of an answer that is not HTTP --------------------------------------------------


def test_a_port_of_nsq_is_recognised() -> None:
    said = str(NotHttpError(b"\x00\x00\x00\x14\x00\x00\x00\x01E_BAD_PROTOCOL"))
    assert said.startswith("that is the TCP port of nsqd or nsqlookupd")
    assert str(NotHttpError(b"SSH-2.0-OpenSSH_9.2")) == "what answers there does not speak HTTP"
