"""The question to an auth server, where its answer sends us, and what it allows (NSQ spec 1.10)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.units import SECOND
from penstock.nsq.protocol.auth import (
    AuthError,
    Credentials,
    Question,
    auth_answer,
    follow,
    grants,
    question,
)
from penstock.nsq.protocol.authorizations import Authorizations

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


# --- where the answer sends us

GET = question("h:1", CLIENT, "get")
POST = question("h:1", CLIENT, "post")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_as_by_any_client(status: int) -> None:
    onward = follow(GET, status, {"location": "/other?a=b"}, b"")
    assert onward == Question("GET", "http://h:1/other?a=b", GET.headers)
    onward = follow(POST, status, {"location": "https://else/"}, b"")
    assert onward is not None
    kept = POST if status in (307, 308) else Question("GET", "", GET.headers)
    assert onward == Question(kept.method, "https://else/", kept.headers, kept.body)


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


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        *((status, b'{"ttl":1}\n', f'got response {status} "{{\\"ttl\\":1}}\\n"')
          for status in (201, 204, 302, 403, 500)),
        (500, b"x" * 1000, f'got response 500 "{"x" * 100}"...'),
        (200, b"{}", "invalid TTL 0 (must be >0)"),
    ],
)  # fmt: skip
def test_what_grants_nothing(status: int, body: bytes, text: str) -> None:
    with pytest.raises(AuthError) as caught:
        grants(status, body)
    assert str(caught.value) == text


def test_the_answer_to_the_client() -> None:
    body = b'{"ttl":1,"authorizations":[{},{}],"identity":"<bob>","identity_url":"http://x"}'
    assert auth_answer(grants(200, body)) == (
        b'{"identity":"\\u003cbob\\u003e","identity_url":"http://x","permission_count":2}'
    )


def test_the_origin_for_the_log_holds_no_secret() -> None:
    asked = Question("GET", "https://user:secret@host:9/auth?secret=s", {})
    assert asked.origin == "https://host:9"


# --- what a client may do


def parse(**fields: Any) -> Authorizations:
    return Authorizations.parse(json.dumps(fields).encode())


def one(topic: str, channels: list[str], *permissions: str) -> Authorizations:
    entry = {"topic": topic, "channels": channels, "permissions": permissions}
    return parse(ttl=1, authorizations=[entry])


def test_an_answer() -> None:
    found = parse(ttl=60, authorizations=[{}], identity="bob", identity_url="http://bob")
    assert found.ttl_ns == 60 * SECOND
    assert (found.identity, found.identity_url, len(found.entries)) == ("bob", "http://bob", 1)


@pytest.mark.parametrize(
    ("topic", "channels", "asked", "allowed"),
    [
        ("^t$", [".*"], ("t", "c"), True),
        ("^t$", [".*"], ("tt", "c"), False),
        ("b", ["."], ("abc", "x"), True),  # found anywhere
        ("", [""], ("anything", "c"), True),
        ("t", [], ("t", "c"), False),
        ("t", ["^a$", "^c$"], ("t", "c"), True),
        ("t", ["archive"], ("t", "archive2"), True),
        ("t", ["^archive$"], ("t", "archive2"), False),
        (r"^\pL+$", [r"\d{2}"], ("topic", "c07"), True),
        ("(?i)TOPIC", [".*#ephemeral$"], ("topic", "c#ephemeral"), True),
        ("t", [".*"], ("t", ""), True),  # publish: the channel is the empty string
        ("t", [""], ("t", ""), True),
        ("t", ["archive"], ("t", ""), False),
        ("t", ["archive", "^$"], ("t", ""), True),
        ("t", [], ("t", ""), False),
        ("x", [".*"], ("t", ""), False),
    ],
)
def test_patterns(topic: str, channels: list[str], asked: tuple[str, str], allowed: bool) -> None:
    assert one(topic, channels, "subscribe", "publish").allows(*asked) is allowed


@pytest.mark.parametrize(
    ("permissions", "publish", "subscribe"),
    [(["publish"], True, False), (["subscribe"], False, True), ([], False, False)],
)
def test_permissions(permissions: list[str], publish: bool, subscribe: bool) -> None:
    found = one("", [""], *permissions)
    assert (found.allows("t"), found.allows("t", "c")) == (publish, subscribe)


def test_one_entry_must_allow_it_all() -> None:
    found = parse(
        ttl=1,
        authorizations=[
            {"topic": "^a$", "channels": ["^1$"], "permissions": ["subscribe"]},
            {"topic": "^b$", "channels": ["^2$"], "permissions": ["subscribe"]},
        ],
    )
    pairs = [(topic, channel) for topic in "ab" for channel in "12" if found.allows(topic, channel)]
    assert pairs == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("missing", [{}, {"authorizations": None}, {"authorizations": []}])
def test_no_authorizations_are_valid(missing: dict[str, Any]) -> None:
    found = parse(ttl=1, **missing)
    assert found.entries == ()
    assert not found.allows("t")


def test_nulls_are_gos_zero_values() -> None:
    found = Authorizations.parse(
        b'{"TTL":2,"identity":null,"other":[{}],"authorizations":[null,'
        b'{"topic":null,"channels":[null],"permissions":["publish"]}]}'
    )
    assert (found.ttl_ns, len(found.entries), found.identity) == (2 * SECOND, 2, "")
    assert found.allows("t")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "Expecting value"),
        (b"<html>", "Expecting value"),
        (b"[]", "cannot unmarshal array into the whole of type struct"),
        (b"{}", "invalid TTL 0 (must be >0)"),
        (b"null", "invalid TTL 0 (must be >0)"),
        (b'{"ttl":-5}', "invalid TTL -5 (must be >0)"),
        (b'{"ttl":1.0}', "cannot unmarshal number 1.0 into ttl of type int"),
        (b'{"ttl":1e3}', "into ttl of type int"),
        (b'{"ttl":"60"}', "cannot unmarshal string into ttl"),
        (b'{"ttl":true}', "cannot unmarshal bool into ttl"),
        (b'{"ttl":9223372036854775808}', "into ttl of type int"),
        (b'{"ttl":1,"authorizations":{}}', "cannot unmarshal object into authorizations of type"),
        (b'{"ttl":1,"authorizations":["x"]}', "cannot unmarshal string into authorizations"),
        (b'{"ttl":1,"authorizations":[{"topic":1}]}', "number 1 into topic of type string"),
        (b'{"ttl":1,"authorizations":[{"channels":".*"}]}', "string into channels of type list"),
        (b'{"ttl":1,"authorizations":[{"channels":[1]}]}', "number 1 into channels of type string"),
        (b'{"ttl":1,"identity":5}', "number 5 into identity of type string"),
        (b'{"ttl":1} x', "after top-level value"),
        (b'{"ttl":1,"authorizations":[{"permissions":["Publish"]}]}',
         'unknown permission "Publish"'),
        (b'{"ttl":1,"authorizations":[{"permissions":["p\\n"]}]}', 'unknown permission "p\\n"'),
        (b'{"ttl":1,"authorizations":[{"topic":"("}]}', 'unable to compile topic "(" "missing ):'),
        (b'{"ttl":1,"authorizations":[{},{"channels":["a","*"]}]}',
         'unable to compile channel "*" "no argument for repetition operator: *"'),
        (rb'{"ttl":1,"authorizations":[{"topic":"(?=a)"}]}', 'unable to compile topic "(?=a)"'),
        (rb'{"ttl":1,"authorizations":[{"topic":"(a)\\1"}]}', "unable to compile topic"),
    ],
)  # fmt: skip
def test_what_fails_as_a_whole(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        Authorizations.parse(body)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [r"\pL{1000}", "((a{100}){100}){100}", "(" * 50_000, "x*" * 50_000,
     "(" * 900 + ".{900}" + ")" * 900 + "{99}"],
    ids=["class", "nested", "open", "many", "deep"],
)  # fmt: skip
def test_hostile_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="unable to compile topic") as caught:
        one(pattern, [])
    assert len(str(caught.value)) < 500


def test_patterns_that_would_hang_others_take_no_time() -> None:
    assert not one("^(a+)+$", [""], "publish").allows("a" * 63 + "!")


def test_too_many_patterns() -> None:
    with pytest.raises(ValueError, match="too large together"):
        one("", [""] * 10_001)
    with pytest.raises(ValueError, match="too large together"):
        parse(ttl=1, authorizations=[{"topic": ".{0,1000}" + "a" * i} for i in range(40)])
    assert len(one("", [""] * 9_000).entries[0].channels) == 9_000


words = st.text(alphabet="ab.*+^$()[]|\\#-", max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ttl", "TTL", "authorizations", "topic", "channels", "permissions"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(json_values | st.binary())
def test_whatever_comes_is_read_or_refused_in_one_line(value: Any) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        found: Authorizations | None = Authorizations.parse(body)
    except ValueError as error:
        found, reason = None, str(error)
    if found is None:
        assert reason.isprintable()
    else:
        assert found.ttl_ns > 0
        assert found.allows("a") in (True, False)


@given(st.lists(st.tuples(words, st.lists(words, max_size=2))))
def test_valid_answers(entries: list[tuple[str, list[str]]]) -> None:
    """An answer whose patterns all compile allows what any one of its entries does alone."""
    wanted = [{"topic": topic, "channels": channels, "permissions": ["publish"]}
              for topic, channels in entries]  # fmt: skip
    try:
        alone = [parse(ttl=1, authorizations=[each]) for each in wanted]
    except ValueError:
        with pytest.raises(ValueError):
            parse(ttl=1, authorizations=wanted)
        return
    together = parse(ttl=1, authorizations=wanted)
    for topic in ("a", "b", "ab", "a.b", "a#ephemeral"):
        assert together.allows(topic) == any(each.allows(topic) for each in alone)
