"""Reading what a client may do, and asking it (NSQ spec 1.10)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.units import SECOND
from penstock.nsq.protocol.authorizations import Authorizations


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


def test_permissions() -> None:
    assert one("", [""], "publish").allows("t")
    assert not one("", [""], "publish").allows("t", "c")
    assert one("", [""], "subscribe").allows("t", "c")
    assert not one("", [""], "subscribe").allows("t")
    assert not one("", [""]).allows("t")


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
    [
        r"\pL{1000}",
        "((a{100}){100}){100}",
        "(" * 50_000,
        "x*" * 50_000,
        "(" * 900 + ".{900}" + ")" * 900 + "{99}",
    ],
)
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
