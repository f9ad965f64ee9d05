"""nsq_to_http: URLs, requests and redirects as Go's, whose turn it is, its flags."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.http.client.link import Origin
from penstock.nsq.client import Message
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_http.command_line import header_values, parse_options
from penstock.nsq.tools.to_http.hops import (
    Endpoint,
    Hop,
    canonical,
    failure,
    fill_in,
    header_fields,
    is_template,
)
from penstock.nsq.tools.to_http.program import Forwarder
from penstock.nsq.tools.to_http.publisher import Publisher, PublishFailed
from penstock.nsq.tools.to_http.urls import BadUrl, Unusable, parse_url


@pytest.mark.parametrize(
    ("text", "origin", "host", "target"),
    [
        ("http://h:1/p?q=1", Origin(False, "h", 1), "h:1", "/p?q=1"),
        ("http://h", Origin(False, "h", 80), "h", "/"),
        ("HTTPS://h?x", Origin(True, "h", 443), "h", "/?x"),
        ("http://h:/a#b", Origin(False, "h", 80), "h", "/a"),
        ("http://[::1]:2/", Origin(False, "::1", 2), "[::1]:2", "/"),
        ("http://h/a b/é?c d&e=é", Origin(False, "h", 80), "h", "/a%20b/%C3%A9?c%20d&e=%C3%A9"),
        ("http://h/%20%41?%zz", Origin(False, "h", 80), "h", "/%20%41?%zz"),
        ("http://u:p@h/", Origin(False, "h", 80), "h", "/"),
        ("http://h/?", Origin(False, "h", 80), "h", "/?"),
    ],
)
def test_urls(text: str, origin: Origin, host: str, target: str) -> None:
    url = parse_url(text)
    assert (url.origin, url.host, url.target) == (origin, host, target)


def test_users() -> None:
    url = parse_url("http://us%20er:p%40ss@h/")
    assert url.authorization == "Basic dXMgZXI6cEBzcw=="
    assert url.shown == "http://us%20er:***@h/"
    assert parse_url("http://u@h/").shown == "http://u@h/"
    assert parse_url("http://h/a:b@c").shown == "http://h/a:b@c"


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("127.0.0.1:80/p", BadUrl, "first path segment in URL cannot contain colon"),
        (":x", BadUrl, "missing protocol scheme"),
        ("http://h:x/", BadUrl, 'invalid port ":x" after host'),
        ("http://[::1", BadUrl, "missing ']' in host"),
        ("http://h/%zz", BadUrl, 'invalid URL escape "%zz"'),
        ("http://a b/", BadUrl, 'invalid character " " in host name'),
        ("http://h/\n", BadUrl, "net/url: invalid control character in URL"),
        ("nosuch://x/", Unusable, 'unsupported protocol scheme "nosuch"'),
        ("x/y", Unusable, 'unsupported protocol scheme ""'),
        ("localhost:80", Unusable, 'unsupported protocol scheme "localhost"'),
        ("http:///p", Unusable, "http: no Host in request URL"),
        ("http:x", Unusable, "http: no Host in request URL"),
        ("http://h:99999/", Unusable, "dial tcp: address 99999: invalid port"),
    ],
)
def test_what_cannot_be_used(text: str, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind) as caught:
        parse_url(text)
    shown = text.replace("\n", "\\n")
    assert str(caught.value) == (f'parse "{shown}": {reason}' if kind is BadUrl else reason)


# --- requests


FIELDS = {"User-Agent": "me", "Content-Type": "text/plain", "X-B": "2", "Cookie": "secret"}


def lines(hop: Hop) -> list[str]:
    head, _, body = hop.encode().partition(b"\r\n\r\n")
    assert body == hop.body
    return head.decode().split("\r\n")


def test_a_post() -> None:
    hop = Endpoint("POST", "http://u:p@h:1/p", FIELDS).hop(b"one")
    assert lines(hop) == [
        "POST /p HTTP/1.1",
        "Host: h:1",
        "User-Agent: me",
        "Content-Length: 3",
        "Authorization: Basic dTpw",
        "Content-Type: text/plain",
        "Cookie: secret",
        "X-B: 2",
        "Accept-Encoding: gzip",
    ]


@pytest.mark.parametrize(
    ("template", "body", "target"),
    [
        ("http://h/g?d=%s", b"a b&c", "/g?d=a+b%26c"),
        ("http://h/g?d=%s", b"x/y?z=%", "/g?d=x%2Fy%3Fz%3D%25"),
        ("http://h/g?d=%s", "é+~*()!'\n".encode(), "/g?d=%C3%A9%2B~%2A%28%29%21%27%0A"),
        ("http://h/g?d=%s", b"\xff", "/g?d=%FF"),
        ("http://h/xx%s/x?x=%%20&x%41", b"m", "/xxm/x?x=%20&x%41"),
        ("http://h/xy%syx", b"m", "/xymyx"),
        ("http://h/%%20%s", b"m", "/%20m"),
        ("http://%s/", b"m", "/"),
        ("http://h/#%s", b"m", "/"),
    ],
)
def test_a_get(template: str, body: bytes, target: str) -> None:
    assert is_template(template)
    endpoint = Endpoint("GET", template, {"User-Agent": "me"})
    for _ in range(2):
        hop = endpoint.hop(body)
        assert lines(hop)[0] == f"GET {target} HTTP/1.1"
        assert hop.url.text == fill_in(template, quote_plus(body, safe="~"))
    assert not any(line.startswith("Content-") for line in lines(hop))


def test_the_host_may_be_in_the_message() -> None:
    endpoint = Endpoint("GET", "http://%s:1/", {})
    assert endpoint.hop(b"one").url.origin.host == "one"
    assert endpoint.hop(b"two").url.origin.host == "two"


@pytest.mark.parametrize("address", ["http://h/", "http://h/%s/%s", "http://h/%%s", "%d"])
def test_what_is_no_template(address: str) -> None:
    assert not is_template(address)


def test_what_counts_as_arrived() -> None:
    post, get = Endpoint("POST", "http://h", {}), Endpoint("GET", "http://h/%s", {})
    assert [status for status in range(100, 600) if get.accepts(status)] == [200]
    assert [status for status in range(100, 600) if post.accepts(status)] == list(range(200, 300))


def test_header_fields() -> None:
    assert canonical("x-request-ID") == "X-Request-Id"
    custom = {"user-agent": "me", "HOST": "other", "content-length": "9", "x-a": "b: c"}
    assert header_fields("tool", "text/plain", custom) == {
        "User-Agent": "me",
        "Content-Type": "text/plain",
        "X-A": "b: c",
    }
    assert header_fields("tool", "", {}) == {"User-Agent": "tool"}


def moved(status: int, location: str, url: str = "http://u:p@h/a/b?c") -> Hop | None:
    return Hop("POST", parse_url(url), FIELDS, b"body").next(status, location)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects(status: int) -> None:
    hop = moved(status, "d")
    assert hop is not None
    kept = {"User-Agent": "me", "X-B": "2", "Cookie": "secret", "Referer": "http://h/a/b?c"}
    if status < 307:
        assert (hop.method, hop.body, hop.fields) == ("GET", b"", kept)
    else:
        kept["Content-Type"] = "text/plain"
        assert (hop.method, hop.body, hop.fields) == ("POST", b"body", kept)
    assert hop.url.text == "http://u:p@h/a/d"


def test_redirects_to_others_take_no_secrets_along() -> None:
    for location, kept in [("http://sub.h/", True), ("http://other/", False), ("//h:9/", True)]:
        hop = moved(307, location)
        assert hop is not None
        assert ("Cookie" in hop.fields) == kept
        assert not hop.url.authorization


def test_referers_do_not_leave_tls() -> None:
    hop = moved(302, "http://h/", "https://h/")
    assert hop is not None
    assert "Referer" not in hop.fields
    hop = moved(302, "https://h/", "https://h/")
    assert hop is not None
    assert hop.fields["Referer"] == "https://h/"


def test_no_redirect() -> None:
    assert moved(302, "") is None
    assert moved(304, "/x") is None
    assert moved(200, "/x") is None
    with pytest.raises(BadUrl):
        moved(302, "http://h:x/")
    with pytest.raises(Unusable):
        moved(302, "ftp://h/")


def test_how_failures_are_told() -> None:
    assert failure("POST", "http://h/", "EOF") == 'Post "http://h/": EOF'


# --- whose turn it is


class Recorder(Publisher):
    """Publishes nothing."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []
        self.fails: set[str] = set()

    async def publish(self, endpoint: Endpoint, body: bytes) -> None:
        host = endpoint.address.removeprefix("http://")
        self.published.append((host, body))
        if host in self.fails:
            raise PublishFailed("got status code 500")


class Dice:
    """Gives these fractions, one after the other."""

    def __init__(self, *fractions: float) -> None:
        self._fractions = iter(fractions)

    def below(self, limit: int) -> int:
        raise AssertionError

    def fraction(self) -> float:
        return next(self._fractions)


def forwarder(recorder: Recorder, *flags: str, dice: Dice | None = None) -> Forwarder:
    argv = ["--topic=t", "--nsqd-tcp-address=h:1", "--post=http://a", "--post=http://b", *flags]
    return Forwarder(parse_options(argv), recorder, SYSTEM_CLOCK, dice or Dice())


def message(body: bytes) -> Message:
    return Message(0, 1, b"0" * 16, body, None)  # type: ignore[arg-type]


async def test_a_dead_host_is_left_alone() -> None:
    recorder = Recorder()
    recorder.fails = {"a"}
    at_work = forwarder(recorder)
    with pytest.raises(PublishFailed):
        await at_work.handle(message(b"m"))
    for _ in range(3):
        await at_work.handle(message(b"m"))
    assert "".join(address for address, _ in recorder.published) == "abbb"


async def test_the_first_failure_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    recorder.fails = {"a"}
    at_work = forwarder(recorder, "--mode=every")
    with pytest.raises(PublishFailed):
        await at_work.handle(message(b"m"))
    assert len(recorder.published) == 1
    assert "--mode=every is not one of round-robin" in capsys.readouterr().err


async def test_only_a_sample_is_published() -> None:
    recorder = Recorder()
    at_work = forwarder(recorder, "--sample=0.5", dice=Dice(0.4, 0.6, 0.5, 0.9))
    for body in (b"1", b"2", b"3", b"4"):
        await at_work.handle(message(body))
    assert [body for _, body in recorder.published] == [b"1", b"3"]


async def test_status_lines(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    at_work = forwarder(recorder, "--status-every=2")
    for _ in range(5):
        await at_work.handle(message(b"m"))
    said = capsys.readouterr().err
    assert said.count("Warning: use more than 100 status values") == 3
    assert said.count("[aggregate]: finished 2 - 99th: ") == 2
    assert said.count("[http://a]: finished 2 - 99th: ") == 1
    assert said.count("[http://b]: finished 2 - 99th: ") == 0


# --- flags


GOOD = ["--topic=t", "--nsqd-tcp-address=h:1", "--post=http://h/"]


def test_the_defaults() -> None:
    flags = parse_options(GOOD)
    assert (flags.channel, flags.publishers, flags.mode) == ("nsq_to_http", 100, "hostpool")
    assert (flags.sample, flags.max_in_flight, flags.status_every) == (1.0, 200, 250)
    assert (flags.connect_timeout, flags.request_timeout) == (2 * 10**9, 20 * 10**9)
    assert (flags.headers, flags.is_to_all) == ({}, False)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--content-type=x"], "--topic and --channel are required"),
        ([*GOOD, "--topic=bad!", "--sample=-1"], "ERROR: --sample must be between 0.0 and 1.0"),
        ([*GOOD, "--n=0"], "no handlers"),
        ([*GOOD, "--post=notaurl"], '--post "notaurl": give an http:// or https:// address'),
        ([*GOOD, "--post=ftp://h"], '--post "ftp://h": give an http:// or https:// address'),
        ([*GOOD[:2], "--get=/%s"], '--get "/%s": give an http:// or https:// address'),
    ],
)
def test_checks_that_no_recorded_run_has(argv: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_options(argv)
    assert str(caught.value) == text


def test_headers() -> None:
    lines = ["header1: value1", "header2:value2", "a : b: c "]
    assert header_values(lines) == {"header1": "value1", "header2": "value2", "a": "b: c"}


@pytest.mark.parametrize("line", ["a:", ":b", ":", "a", "a: ", "a b: c", "a: b\x00", "ü: b"])
def test_what_is_no_header(line: str) -> None:
    with pytest.raises(ToolError):
        header_values(["header1: value1", line])
