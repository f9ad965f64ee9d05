"""Requests to daemons, without I/O: how they are asked, and in what words they fail."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
from pathlib import Path

import pytest

from penstock.cluster.access import Access
from penstock.cluster.exchange import (
    Endpoint,
    code_of,
    escaped,
    https_port,
    of_lookupd,
    status_text,
    target,
)
from penstock.cluster.fanout import Strict, Warnings, ask_all, try_all
from penstock.cluster.reasons import LATE, reason_of, tls_remedy
from penstock.cluster.upstream_errors import (
    GO,
    PLAIN,
    ErrorWording,
    NoAnswerError,
    RefusedError,
    SentRequest,
    UnexpectedError,
    UnreachableError,
    UpstreamError,
)
from penstock.core.errors import ConfigError
from penstock.net.address import join_host_port


def test_a_status_with_and_without_a_name() -> None:
    assert status_text(404) == "404 Not Found"
    assert status_text(599) == "599"


def test_names_in_queries() -> None:
    assert escaped("t#ephemeral") == "t%23ephemeral"
    assert escaped("a b&c") == "a+b%26c"
    assert escaped("\udcff") == "%FF"


def test_targets() -> None:
    assert target("/p", topic="a b#", from_=3, limit=None) == "/p?topic=a+b%23&from=3"
    assert target("/p", topic="%DLQ%g", at="\udcff") == "/p?topic=%25DLQ%25g&at=%FF"


@pytest.mark.parametrize(
    ("address", "url", "where"),
    [
        ("h:4151", "http://h:4151/p", ("h", 4151)),
        (":4151", "http://:4151/p", ("localhost", 4151)),
        ("[::1]:1", "http://[::1]:1/p", ("::1", 1)),
        ("h:http", "http://h:http/p", ("h", 80)),
        ("https://h:4152/", "https://h:4152/p", ("h", 4152)),
        ("http://h/nsq/", "http://h:80/nsq/p", ("h", 80)),
        ("https://[::1]", "https://[::1]:443/p", ("::1", 443)),
    ],
)
def test_endpoints(address: str, url: str, where: tuple[str, int]) -> None:
    endpoint = Endpoint.of(address)
    assert endpoint.url("/p") == url
    assert endpoint.host_and_port() == where
    assert endpoint.secure(9).url("") == f"https://{join_host_port(where[0], 9)}"


@pytest.mark.parametrize("address", ["http://me:s%40cret@h:1/", "me:s%40cret@h:1"])
def test_a_password_is_sent_and_not_shown(address: str) -> None:
    endpoint = Endpoint.of(address)
    assert endpoint.url("/p") == "http://h:1/p"
    assert endpoint.headers == {"Authorization": "Basic bWU6c0BjcmV0"}
    assert endpoint.secure(2).headers == endpoint.headers
    assert Endpoint.of("h:1").headers == {}


def test_the_port_that_a_refusal_names() -> None:
    assert https_port(403, b'{"message":"TLS_REQUIRED","https_port":4152}') == 4152
    for status, body in (
        (200, b'{"https_port":4152}'),
        (403, b'{"https_port":99999}'),
        (403, b'{"https_port":"4152"}'),
        (403, b"[" * 100_000),
        (403, b"[1]"),
        (403, b""),
    ):
        assert https_port(status, body) == 0
    assert code_of(b'{"message":7}') == ""


def test_an_nsqlookupd_is_asked_over_plain_http_unless_its_url_says_otherwise() -> None:
    assert of_lookupd("h:4161") == "http://h:4161"
    assert of_lookupd("https://h:1") == "https://h:1"


# --- The way daemons are asked -------------------------------------------------------------------


def test_the_secret_is_sent_and_not_shown() -> None:
    assert Access().headers == {}
    access = Access(auth_secret="s3cret")
    assert access.headers == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(access)


def test_what_concerns_tls() -> None:
    assert not Access(auth_secret="s").concerns_tls
    for given in (Access(tls=True), Access(verify=False), Access(server_name="n"), Access(key="k")):
        assert given.concerns_tls


def test_the_context(tmp_path: Path) -> None:
    assert Access().new_context().verify_mode is ssl.CERT_REQUIRED
    assert Access(verify=False).new_context().verify_mode is ssl.CERT_NONE
    missing = tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        Access(root_ca_file=str(missing)).new_context()


async def ask(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise UpstreamError(f"bad {number}")
    return number * 10


async def test_the_good_and_the_others() -> None:
    found = await ask_all("nsqd", [1, -2, 3], ask)
    assert found.answers == [(1, 10), (3, 30)]
    assert found.errors == ["bad -2"]


@pytest.mark.parametrize(("asked", "errors"), [([-1, -2], "bad -1\nbad -2"), ([], "")])
async def test_no_answer_at_all(asked: list[int], errors: str) -> None:
    with pytest.raises(NoAnswerError) as raised:
        await ask_all("nsqd", asked, ask)
    assert str(raised.value) == f"failed to query any nsqd: {errors}"
    assert (await try_all(asked, ask)).answers == []


async def test_a_bug_is_no_warning() -> None:
    async def broken(number: int) -> int:
        raise KeyError(number)

    with pytest.raises(KeyError):
        await ask_all("nsqd", [1], broken)


def test_warnings_by_step() -> None:
    warnings = Warnings()
    assert warnings.message == ""
    warnings.add([])
    warnings.add(["a", "b"])
    warnings.add(iter(["c"]))
    assert warnings.message == "WARNING: a\nb; c"
    assert warnings.errors == ["a", "b", "c"]


def test_a_failure_spoils_the_whole() -> None:
    strict = Strict()
    strict.add([])
    with pytest.raises(NoAnswerError, match=r"^a\nb$"):
        strict.add(["a", "b"])


# --- The texts of errors, in either manner -------------------------------------------------------


ASKED = SentRequest("GET", Endpoint.of("h:1"), "/topics")
CODE = b'{"message":"TOPIC_NOT_FOUND"}'


@pytest.mark.parametrize(
    ("wording", "unreachable", "refused", "unexpected"),
    [
        (PLAIN, "h:1 cannot be reached: timed out", "h:1: 404 TOPIC_NOT_FOUND",
         "h:1: no nsqd or nsqlookupd answers there (why)"),
        (GO, 'Get "http://h:1/topics": dial tcp h:1: i/o timeout',
         'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"',
         'Get "http://h:1/topics": the answer is not what is expected: why'),
    ],
)  # fmt: skip
def test_texts(wording: ErrorWording, unreachable: str, refused: str, unexpected: str) -> None:
    late = UnreachableError(wording, ASKED, reason_of(TimeoutError(), "h:1", connecting=True))
    assert (str(late), late.short) == (unreachable, "timed out")
    refusal = RefusedError(wording, ASKED, 404, CODE)
    assert (str(refusal), refusal.code, refusal.short) == (refused, "TOPIC_NOT_FOUND", "status 404")
    strange = UnexpectedError(wording, ASKED, "why")
    assert (str(strange), strange.short) == (unexpected, "no nsqd answers there")


def test_a_path_that_is_unknown_there_means_another_program() -> None:
    refusal = RefusedError(PLAIN, ASKED, 404, b'{"message":"NOT_FOUND"}')
    assert str(refusal) == (
        "h:1 does not know /topics: another program, or an earlier version, answers there"
    )
    assert refusal.short == "another program, or an earlier version, answers there"


def test_a_refusal_without_a_code() -> None:
    assert str(RefusedError(PLAIN, ASKED, 500, b"oops")) == "h:1: 500 Internal Server Error"
    assert not RefusedError(PLAIN, ASKED, 404, b"").is_unknown
    assert RefusedError(PLAIN, ASKED, 404, b'{"message":"NOT_FOUND"}').is_unknown


# --- Reasons for people, in plain words and in Go's ----------------------------------------------


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")
MANY = OSError(
    "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
    "[Errno 111] Connect call failed ('127.0.0.1', 1)"
)
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
GONE = http.client.RemoteDisconnected("Remote end closed connection without response")


@pytest.mark.parametrize(
    ("error", "plain", "go"),
    [
        (REFUSED, "connection refused", "dial tcp h:1: connect: connection refused"),
        (MANY, "connection refused", "dial tcp h:1: connect: connection refused"),
        (UNKNOWN, "no such host", "dial tcp: lookup h: no such host"),
        (TimeoutError(), "timed out", "dial tcp h:1: i/o timeout"),
        (OSError(errno.ENETUNREACH, "x"), "network is unreachable",
         "dial tcp h:1: connect: network is unreachable"),
    ],
)  # fmt: skip
def test_no_connection(error: OSError, plain: str, go: str) -> None:
    assert reason_of(error, "h:1", connecting=True) == (plain, go, "")


@pytest.mark.parametrize(
    ("error", "plain", "go"),
    [
        (TimeoutError(), "timed out", LATE),
        (EOFError(), "the connection ended before the answer did", "EOF"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset by peer",
         "read tcp h:1: x"),
        (ValueError("no size"), "no size", "no size"),
    ],
)  # fmt: skip
def test_no_answer(error: Exception, plain: str, go: str) -> None:
    assert reason_of(error, "h:1") == (plain, go, "")


@pytest.mark.parametrize(
    ("error", "plain"),
    [
        (GONE, "the connection ended before the answer did"),
        (http.client.IncompleteRead(b"", 5), "the connection ended before the answer did"),
        (http.client.BadStatusLine("220 mail"), "what answers there does not speak HTTP"),
        (
            http.client.BadStatusLine("\0\0\0\x12\0\0\0\1E_BAD_PROTOCOL"),
            "that is the TCP port of nsqd "
            "or nsqlookupd; HTTP is at another, by default 4151 or 4161",
        ),
        (TimeoutError("The read operation timed out"), "timed out"),
    ],
)
def test_what_the_standard_librarys_client_raises(error: Exception, plain: str) -> None:
    assert reason_of(error, "h:1").plain == plain


def test_tls_comes_with_a_remedy() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 19, "self-signed certificate"
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    found = reason_of(error, "h:1", connecting=True)
    assert found.plain == found.go
    assert found.plain.endswith("x509: certificate signed by unknown authority")
    assert found.remedy == "; --tls-root-ca-file and --tls-server-name say whom to trust"
    wanted = ssl.SSLError(1, "x")
    wanted.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert tls_remedy(wanted, "a", "b") == "; b present one"
    assert tls_remedy(OSError(), "a", "b") == ""
