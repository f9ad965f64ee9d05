"""The question to an auth server, and the ways its answer may send us (NSQ spec 1.10)."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol.auth import (
    AuthError,
    Credentials,
    Question,
    auth_answer,
    follow,
    grants,
    question,
)

CLIENT = Credentials(b"s3cret", "1.2.3.4")


def test_get_carries_the_question_in_the_query() -> None:
    asked = question("auth.example:4181", CLIENT, "get")
    assert asked == Question(
        "GET",
        "http://auth.example:4181/auth?common_name=&remote_ip=1.2.3.4&secret=s3cret&tls=false",
        {"Accept": "application/vnd.nsq; version=1.0"},
    )


def test_post_carries_it_as_json() -> None:
    asked = question("h:1", Credentials(b"a b\xff<", "::1", True, "Zoë"), "post")
    assert (asked.method, asked.url) == ("POST", "http://h:1/auth")
    assert asked.headers == {
        "Accept": "application/vnd.nsq; version=1.0",
        "Content-Type": "application/json",
    }
    names = '{"common_name":["Zoë"],"remote_ip":["::1"],'
    assert asked.body.decode() == names + '"secret":["a b\ufffd\\u003c"],"tls":["true"]}'


@pytest.mark.parametrize(
    ("address", "start"),
    [
        ("http://h/x", "http://h/x?common_name="),
        ("https://h:9/x?y=1", "https://h:9/x?y=1?common_name="),
        ("[::1]:5", "http://[::1]:5/auth?common_name="),
    ],
)
def test_urls_are_used_as_they_are(address: str, start: str) -> None:
    assert question(address, CLIENT, "get").url.startswith(start)


def test_a_secret_of_special_characters() -> None:
    asked = question("h", Credentials("a b&c=d/é%+~".encode() + b"\xff\n"), "get")
    assert "&secret=a+b%26c%3Dd%2F%C3%A9%25%2B~%FF%0A&tls=" in asked.url


@given(st.binary(min_size=1), st.text(), st.booleans())
def test_the_query_reads_back(secret: bytes, name: str, is_tls: bool) -> None:
    name = name.encode("utf-8", "replace").decode()
    url = question("h:1", Credentials(secret, "", is_tls, name), "get").url
    assert url.isascii()
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True, errors="surrogateescape")
    assert [key for key, _ in pairs] == ["common_name", "remote_ip", "secret", "tls"]
    found = dict(pairs)
    assert found["secret"].encode("utf-8", "surrogateescape") == secret
    assert (found["common_name"], found["tls"]) == (name, "true" if is_tls else "false")


@given(st.binary(min_size=1))
def test_the_body_is_json(secret: bytes) -> None:
    found = json.loads(question("h:1", Credentials(secret), "post").body)
    assert list(found) == ["common_name", "remote_ip", "secret", "tls"]
    assert all(type(value) is list and len(value) == 1 for value in found.values())


def test_the_secret_is_in_no_repr() -> None:
    for method in ("get", "post"):
        assert "s3cret" not in repr(CLIENT) + repr(question("h:1", CLIENT, method))


# --- where the answer sends us --------------------------------------------------------------------

GET = question("h:1", CLIENT, "get")
POST = question("h:1", CLIENT, "post")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_as_by_any_client(status: int) -> None:
    onward = follow(GET, status, {"location": "/other?a=b"}, b"")
    assert onward == Question("GET", "http://h:1/other?a=b", GET.headers)
    onward = follow(POST, status, {"location": "https://else/"}, b"")
    assert onward is not None
    assert onward.url == "https://else/"
    if status in (307, 308):
        assert (onward.method, onward.headers, onward.body) == ("POST", POST.headers, POST.body)
    else:
        assert (onward.method, onward.headers, onward.body) == ("GET", GET.headers, b"")


def test_no_way_back_from_https() -> None:
    asked = question("https://h/auth", CLIENT, "get")
    with pytest.raises(AuthError, match="redirected from https to http"):
        follow(asked, 302, {"location": "http://h/auth"}, b"")
    with pytest.raises(AuthError, match=r'redirected to "//\[", which is not an address'):
        follow(asked, 302, {"location": "//["}, b"")


@pytest.mark.parametrize(
    ("url", "onward"),
    [
        ("h:1", "https://h:4432/auth?common_name="),
        ("http://h/x", "https://h:4432/x?common_name="),
        ("http://u:p@[::1]:1/x", "https://u:p@[::1]:4432/x?common_name="),
    ],
)
def test_a_403_names_the_https_port(url: str, onward: str) -> None:
    followed = follow(question(url, CLIENT, "get"), 403, {}, b'{"https_port":4432}')
    assert followed is not None
    assert followed.url.startswith(onward)
    followed = follow(POST, 403, {}, b'{"HTTPS_PORT":4432}')
    assert followed is not None
    assert (followed.method, followed.url, followed.body) == (
        "POST", "https://h:4432/auth", POST.body)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        (GET, 200, b'{"https_port":1}'),
        (GET, 401, b'{"https_port":1}'),
        (GET, 302, b""),
        (GET, 403, b"{}"),
        (GET, 403, b"forbidden"),
        (GET, 403, b'{"https_port":"1"}'),
        (GET, 403, b'{"https_port":65536}'),
        (GET, 403, b'{"https_port":-1}'),
        (question("https://h", CLIENT, "get"), 403, b'{"https_port":1}'),
    ],
)
def test_answers_that_send_us_nowhere(asked: Question, status: int, body: bytes) -> None:
    assert follow(asked, status, {}, body) is None


@pytest.mark.parametrize("status", [201, 204, 302, 403, 500])
def test_only_200_grants(status: int) -> None:
    with pytest.raises(AuthError) as caught:
        grants(status, b'{"ttl":1}\n')
    assert str(caught.value) == f'got response {status} "{{\\"ttl\\":1}}\\n"'


def test_a_long_answer_is_cut_in_the_log() -> None:
    with pytest.raises(AuthError) as caught:
        grants(500, b"x" * 1000)
    assert str(caught.value) == f'got response 500 "{"x" * 100}"...'


def test_nonsense_is_an_auth_error() -> None:
    with pytest.raises(AuthError, match="invalid TTL 0"):
        grants(200, b"{}")


def test_the_answer_to_the_client() -> None:
    body = b'{"ttl":1,"authorizations":[{},{}],"identity":"<bob>","identity_url":"http://x"}'
    assert auth_answer(grants(200, body)) == (
        b'{"identity":"\\u003cbob\\u003e","identity_url":"http://x","permission_count":2}'
    )


def test_the_origin_for_the_log_holds_no_secret() -> None:
    asked = Question("GET", "https://user:secret@host:9/auth?secret=s", {})
    assert asked.origin == "https://host:9"
