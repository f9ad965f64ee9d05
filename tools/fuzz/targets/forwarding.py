"""What forwarding reads: messages as JSON, URLs and redirects, and what HTTP endpoints answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

from penstock.net.http.client.answer import AnswerReader
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, Missing, NoObject
from penstock.nsq.tools.to_http.hops import Endpoint, Hop
from penstock.nsq.tools.to_http.urls import BadUrl, Unusable, parse_url
from tools.fuzz.streams import same_however_cut

from . import Target

MAX_BODY = 64
_FILTERS = [JsonFilter(kept=["a", "b"]), JsonFilter("a", "1"), JsonFilter("b")]
_HOME = parse_url("http://u:p@h:1/a/b?c")


def messages(data: bytes) -> None:
    """Any bytes pass a filter or do not; what is cut down is JSON, and passes again unchanged."""
    for each in _FILTERS:
        try:
            passed_on = each.apply(data)
        except (NoObject, Missing):
            continue
        if passed_on is not None:
            again = each.apply(passed_on)
            assert again == passed_on
            json.loads(passed_on.decode("utf-8", "replace"))


def urls(data: bytes) -> None:
    """Any text is a URL to use, or refused in one line; nothing of it breaks out of the head."""
    text = data.decode("utf-8", "replace")
    try:
        url = parse_url(text)
    except (BadUrl, Unusable) as error:
        assert "\n" not in str(error)
        return
    assert url.origin.host
    assert 0 <= url.origin.port <= 65535
    _check(Hop("GET", url, {}))
    user = re.split("[/?#]", url.shown)[2].rpartition("@")[0]
    assert ":" not in user or user.endswith(":***")


def redirects(data: bytes) -> None:
    """Any Location, and any message in the place of `%s`."""
    try:
        hop = Hop("POST", _HOME, {"Cookie": "x"}, b"body").next(307, data.decode("latin-1"))
    except (BadUrl, Unusable):
        hop = None
    if hop is not None:
        assert ("Cookie" in hop.fields) <= hop.url.origin.host.lower().endswith("h")
        _check(hop)
    _check(Endpoint("GET", "http://h/%s?x=%%20", {}).hop(data))


def _check(hop: Hop) -> None:
    try:
        head = hop.encode()
    except ValueError:  # the Host has a character that no head can have
        return
    first, _, _ = head.partition(b"\r\n")
    assert first.count(b" ") == 2, first
    assert head.count(b"\r\n\r\n") == 1 + hop.body.count(b"\r\n\r\n")


def answers(data: bytes) -> None:
    """An answer is whole, or not, or none, however it is cut; and no more is held than allowed."""
    for discard in (False, True):
        same_however_cut(data, partial(_answer, discard=discard))


def _answer(pieces: Iterator[bytes], discard: bool) -> object:
    reader = AnswerReader("GET", MAX_BODY, discard=discard)
    try:
        for piece in pieces:
            if reader.feed(piece):
                break
        else:
            reader.end()
    except ValueError:
        return "refused"
    assert sum(map(len, reader._parts)) <= MAX_BODY
    return reader.answer() if reader.done else "not whole"


_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

TARGETS = {
    "forwarded_messages": Target(
        messages,
        [
            b'{"a":1,"b":"<x>&\'\xc3\xa9","c":3}',
            b'{"a":{"z":1.0,"b":1e21},"b":[0.0000001,-0.0,1e400]}',
            b'{"a":"\\u2028\\u0001\\ud800\\ud83d\\ude00","a":12345678901234567890}',
            b" null\n",
            b'{"a":"\xff\xe2\x82","b":' + b"[" * 50 + b"]" * 50 + b"}",
        ],
        [b"[", b"]", b"{", b"}", b'"a":', b"\\ud800", b"1e", b"NaN", b"-", b"null", b"\xff", b"9"],
    ),
    "forwarding_urls": Target(
        urls,
        [b"http://u:p@h:1/a b?c#d", b"https://[::1]:443/%41?%zz", b"h:1/x", b"http:///", b"x:y"],
        [b"http://", b"@", b":", b"[", b"]", b"%", b"%41", b"#", b"?", b"//", b"\n", b"\0", b" "],
    ),
    "redirects": Target(
        redirects,
        [b"/d?e", b"//other/x", b"http://sub.h/", b"https://h:9/", b"../..", b"ftp://x/"],
        [b"http://", b"//", b"..", b"?", b"#", b"%", b":", b"@", b"\r\n", b"\0", b" ", b"h"],
    ),
    "http_answers": Target(
        answers,
        [
            _OK,
            b"HTTP/1.1 100 Continue\r\n\r\n" + _OK,
            b"HTTP/1.1 302 Found\r\nLocation: /x\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\nall of it",
            b"HTTP/1.1 204 No Content\r\n\r\n",
        ],
        [
            b"\r\n",
            b"\r\n\r\n",
            b"Content-Length: ",
            b"HTTP/1.1 ",
            b"0\r\n\r\n",
            b"9" * 20,
            b" 200 ",
        ],
    ),
}
