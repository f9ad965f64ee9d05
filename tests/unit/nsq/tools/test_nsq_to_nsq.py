"""nsq_to_nsq: shares and halves of what it forwards, its JSON filter, its flags."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.chance import SystemChance
from penstock.nsq.client import Config, Delivery
from penstock.nsq.client.consume.backoff import Backoff
from penstock.nsq.client.consume.replies import Link, Replies
from penstock.nsq.client.errors import BadBody, BadMessage, ClientError, NotConnected, Unauthorized
from penstock.nsq.tools.nsq_to_nsq import forwarder
from penstock.nsq.tools.nsq_to_nsq.command_line import parse_options
from penstock.nsq.tools.nsq_to_nsq.forwarder import Forwarder, Picked, Run
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, Missing, NoObject, decode_object
from tests.unit.nsq.client.links import FakeLink, block

BODIES = [b"%d" % number for number in range(7)]


def delivery(*bodies: bytes) -> tuple[Delivery, FakeLink]:
    """Messages that came together, and where their answers go."""
    link, config = FakeLink(len(bodies)), Config()
    backoff = Backoff(config, SystemChance())
    replies = Replies(cast(Link, link), config, backoff, lambda _: None, lambda call: call())
    return Delivery(replies, block(*bodies)), link


@pytest.mark.parametrize("is_picked", [False, True])
def test_shares_are_answered_by_themselves(is_picked: bool) -> None:
    whole, link = delivery(*BODIES)
    run = Run(Picked(list(whole.messages())) if is_picked else whole, BODIES)
    shares = list(run.shares(3))
    assert [list(share.bodies) for share in shares] == [BODIES[:2], BODIES[2:4], BODIES[4:]]
    assert [share.first_id for share in shares] == [f"{number:016d}" for number in (0, 2, 4)]
    shares[1].messages.finish()
    shares[2].messages.requeue()
    assert (link.numbers(b"FIN"), link.numbers(b"REQ")) == ([2, 3], [4, 5, 6])
    assert link.in_flight == 2


def test_one_share_is_the_run_itself_and_none_is_empty() -> None:
    whole, link = delivery(*BODIES)
    run = Run(whole, BODIES)
    (share,) = run.shares(1)
    assert share.messages is whole
    assert [list(share.bodies) for share in run.shares(9)] == [[body] for body in BODIES]
    assert [list(half.bodies) for half in run.halves()] == [BODIES[:3], BODIES[3:]]
    share.messages.finish()
    assert link.numbers(b"FIN") == list(range(7))


def test_no_share_is_too_much_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "BYTES_MAX", 10)
    bodies = [b"x" * size for size in (1, 1, 9, 20, 3, 3, 3)]
    whole, link = delivery(*bodies)
    shares = list(Run(whole, bodies).shares(1))
    assert [body for share in shares for body in share.bodies] == bodies
    assert all(len(share) == 1 or sum(map(len, share.bodies)) <= 10 for share in shares)
    for share in shares:
        share.messages.finish()
    assert link.numbers(b"FIN") == list(range(7))


class FakeDestinations:
    """Takes everything but what is too big, and fails with `error` if there is one."""

    shares = 1

    def __init__(self) -> None:
        self.commands: list[list[bytes]] = []
        self.taken: list[bytes] = []
        self.error: ClientError | None = None

    async def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        assert topic == "to"
        self.commands.append(list(bodies))
        if self.error is not None:
            raise self.error
        if any(len(body) > 10 for body in bodies):
            kind = BadMessage if len(bodies) == 1 else BadBody
            raise kind("E_BAD_BODY too big" if kind is BadBody else "E_BAD_MESSAGE too big")
        self.taken += bodies


class FakeConsumer:
    topic, channel = "from", "c"

    def __init__(self, *deliveries: Delivery) -> None:
        self._deliveries = deliveries

    async def deliveries(self) -> AsyncIterator[Delivery]:
        for each in self._deliveries:
            yield each


async def forward(
    destinations: FakeDestinations, *bodies: bytes, json_filter: JsonFilter | None = None
) -> FakeLink:
    whole, link = delivery(*bodies)
    at_work = Forwarder(
        FakeConsumer(whole),  # type: ignore[arg-type]
        "to",
        destinations,  # type: ignore[arg-type]
        json_filter or JsonFilter(),
    )
    await at_work.run()
    return link


async def test_a_delivery_is_one_command() -> None:
    destinations = FakeDestinations()
    link = await forward(destinations, b"a", b"b", b"c")
    assert destinations.commands == [[b"a", b"b", b"c"]]
    assert (link.numbers(b"FIN"), link.numbers(b"REQ"), link.in_flight) == ([0, 1, 2], [], 0)


async def test_it_is_shared_among_destinations() -> None:
    destinations = FakeDestinations()
    destinations.shares = 2
    link = await forward(destinations, b"a", b"b", b"c")
    assert destinations.commands == [[b"a"], [b"b", b"c"]]
    assert sorted(link.numbers(b"FIN")) == [0, 1, 2]


async def test_one_that_is_refused_is_left_over_alone(caplog: pytest.LogCaptureFixture) -> None:
    destinations = FakeDestinations()
    bodies = [b"%d" % number for number in range(100)]
    bodies[37] = b"x" * 11
    link = await forward(destinations, *bodies)
    assert sorted(destinations.taken) == sorted(body for body in bodies if len(body) < 11)
    assert link.numbers(b"REQ") == [37]
    assert sorted([*link.numbers(b"FIN"), 37]) == list(range(100))
    assert len(destinations.commands) <= 16
    text = "[from/c] Handler returned error (E_BAD_MESSAGE too big) for msg 0000000000000025"
    assert [record.getMessage() for record in caplog.records] == [text]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (NotConnected("h:1", "dial tcp h:1: connect: connection refused"), "dial tcp h:1: connect"),
        (NotConnected("h:1", "the connection ended"), "h:1: the connection ended"),
        (Unauthorized("E_UNAUTHORIZED no"), "E_UNAUTHORIZED no"),
    ],
)
async def test_a_failure_requeues_all_and_is_told_once(
    error: ClientError, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    destinations = FakeDestinations()
    destinations.error = error
    link = await forward(destinations, b"a", b"b", b"c")
    assert (link.numbers(b"FIN"), link.numbers(b"REQ")) == ([], [0, 1, 2])
    assert len(destinations.commands) == 1
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"[from/c] Handler returned error ({shown}")
    assert record.getMessage().endswith(") for msg 0000000000000000 and 2 more")


async def test_filtering(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    destinations = FakeDestinations()
    bodies = [b'{"a":1}', b"no json", b'{"b":2}', b'{"a":2}', b'{"a":1.0}']
    link = await forward(destinations, *bodies, json_filter=JsonFilter("a", "1"))
    assert destinations.commands == [[b'{"a":1}', b'{"a":1.0}']]
    assert sorted(link.numbers(b"FIN")) == [0, 1, 3, 4]
    assert link.numbers(b"REQ") == [2]
    said = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "ERROR: Unable to decode json: no json",
        "ERROR: missing field to check required value",
    ]
    (record,) = caplog.records
    text = "[from/c] Handler returned error (backoff) for msg 0000000000000002"
    assert record.getMessage() == text


async def test_nothing_passes() -> None:
    destinations = FakeDestinations()
    link = await forward(destinations, b"null", b"{}", json_filter=JsonFilter("a"))
    assert destinations.commands == []
    assert link.numbers(b"FIN") == [0, 1]


# --- the JSON filter


def test_what_is_needed() -> None:
    assert not JsonFilter().is_needed
    assert not JsonFilter(value="1").is_needed
    assert JsonFilter(field="a").is_needed
    assert JsonFilter(kept=["a"]).is_needed


@pytest.mark.parametrize(
    "body",
    [
        b"not json", b"[1]", b'"s"', b"1", b"", b"{", b'{"a":1}x', b'{"a":01}', b'{"a":1.}',
        b'{"a":1e400}', b'{"a":-1e400}', b'{"b":{"c":[1e999]}}', b'{"a":' + b"9" * 400 + b"}",
        b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b"{'a':1}", b'{"a":1,}',
        b'{"a":"\n"}', b'\xef\xbb\xbf{"a":1}', b'\x0c{"a":1}', b'{"a":"\\x"}', b'{"a":+1}',
    ],
)  # fmt: skip
def test_no_object(body: bytes) -> None:
    with pytest.raises(NoObject):
        JsonFilter(field="a").apply(body)


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (b'{"a":1,"b":"x","c":[1,{"z":1}]}', True),
        (b'{"a":null}', True),
        (b'{"a":1,"a":2}', True),
        (b' {"a":1} \r\n\t', True),
        (b'{"b":2}', False),
        (b"null", False),
        (b'{"A":1}', False),
    ],
)
def test_a_field_is_required(body: bytes, passes: bool) -> None:
    assert JsonFilter(field="a").apply(body) == (body if passes else None)


@pytest.mark.parametrize(
    ("value", "body", "passes"),
    [
        ("1", b'{"a":1}', True),
        ("1", b'{"a":1.0}', True),
        ("1", b'{"a":"1"}', True),
        ("1", b'{"a":true}', False),
        ("1", b'{"a":[1]}', False),
        ("1", b'{"a":null}', False),
        ("1", b'{"a":2,"a":1}', True),
        ("1", b'{"a":1,"a":2}', False),
        ("1e0", b'{"a":1}', True),
        ("1e0", b'{"a":"1e0"}', True),
        ("1e0", b'{"a":"1"}', False),
        ("+1.", b'{"a":1}', True),
        ("0x1p-2", b'{"a":0.25}', True),
        ("0x10", b'{"a":16}', False),
        ("0x1p99999", b'{"a":1}', False),
        ("1e400", b'{"a":1}', False),
        (" 1", b'{"a":1}', False),
        ("1_0", b'{"a":10}', False),
        ("\u0661", b'{"a":1}', False),
        ("nan", b'{"a":1}', False),
        ("inf", b'{"a":1}', False),
        ("9007199254740993", b'{"a":9007199254740992}', True),
        ("true", b'{"a":true}', False),
        ("true", b'{"a":"true"}', True),
        ("x", b'{"a":"X"}', False),
        ("\ufffd", b'{"a":"\\ud800"}', True),
        ("\ufffd\ufffd", b'{"a":"\xe2\x82"}', True),
    ],
)
def test_a_value_is_required(value: str, body: bytes, passes: bool) -> None:
    assert JsonFilter(field="a", value=value).apply(body) == (body if passes else None)


def test_a_field_that_is_missing_comes_again() -> None:
    for body in (b'{"b":1}', b"null"):
        with pytest.raises(Missing, match=r"^missing field to check required value$"):
            JsonFilter(field="a", value="1").apply(body)


@pytest.mark.parametrize(
    ("body", "passed_on"),
    [
        ('{"a":1,"b":"<x>&\'é","c":3}', '{"a":1,"b":"\\u003cx\\u003e\\u0026\'é"}'),
        ('{"c":1}', "{}"),
        ("null", "{}"),
        ('{ "b" : 1.5 , "a" : [1.0, {"y":1,"x":2}] }', '{"a":[1,{"x":2,"y":1}],"b":1.5}'),
        ('{"a":1e3,"b":12345678901234567890}', '{"a":1000,"b":12345678901234567000}'),
        ('{"a":-0.0,"b":[-0.0]}', '{"a":0,"b":[-0]}'),
        ('{"a":9007199254740993,"b":1e21}', '{"a":9007199254740992,"b":1e+21}'),
        ('{"a":{"z":1.0,"b":1e21},"b":0.0000001}', '{"a":{"b":1e+21,"z":1},"b":1e-7}'),
        ('{"a":1234567890123456789}', '{"a":1234567890123456768}'),
        ('{"a":[1234567890123456789]}', '{"a":[1234567890123456800]}'),
        ('{"a":9223372036854775807}', '{"a":9223372036854776000}'),
        ('{"a":-9223372036854775808}', '{"a":-9223372036854775808}'),
        ('{"a":"\\u2028\\u0001\\ud800"}', '{"a":"\\u2028\\u0001\ufffd"}'),
        ('{"a":"\\ud83d\\ude00\\ud800\\ud83d\\ude00"}', '{"a":"😀\ufffd😀"}'),
        ('{"a":{"\\ud800":1,"\\u00e9":2}}', '{"a":{"é":2,"\ufffd":1}}'),
        ('{"a":true,"b":null}', '{"a":true,"b":null}'),
        ('{"a":"\\/\\b\\f\\u007f"}', '{"a":"/\\b\\f\x7f"}'),
    ],
)
def test_only_some_fields_are_kept(body: str, passed_on: str) -> None:
    kept = JsonFilter(kept=["b", "a", "zz", "a"])
    assert kept.apply(body.encode()) == passed_on.encode()


def test_bytes_that_are_no_text_become_one_mark_each() -> None:
    kept = JsonFilter(kept=["a"])
    assert kept.apply(b'{"a":"\xff\xe2\x82\xed\xa0\x80."}') == (
        b'{"a":"' + "\ufffd".encode() * 6 + b'."}'
    )


def test_field_and_kept() -> None:
    both = JsonFilter(field="a", kept=["b"])
    assert both.apply(b'{"a":1,"b":2}') == b'{"b":2}'
    assert both.apply(b'{"b":2}') is None


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), json_values))
def test_whatever_is_json_keeps_its_meaning(fields: dict[str, object]) -> None:
    passed_on = JsonFilter(kept=[*fields, "more"]).apply(json.dumps(fields).encode())
    assert passed_on is not None
    assert decode_object(passed_on) == fields


@given(st.binary())
def test_any_bytes(body: bytes) -> None:
    try:
        passed_on = JsonFilter(kept=["a"]).apply(body)
    except NoObject:
        return
    assert passed_on is not None
    json.loads(passed_on)


# --- flags


def test_the_flags() -> None:
    given = ["--topic=t", "--nsqd-tcp-address=h:1", "--destination-nsqd-tcp-address=h:2"]
    flags = parse_options(
        [*given, "--topic=u", "--whitelist-json-field=a", "--whitelist-json-field=b"]
    )
    assert flags.topics == ("t", "u")
    assert (flags.channel, flags.destination_topic) == ("nsq_to_nsq", "")
    assert (flags.mode, flags.status_every, flags.max_in_flight) == ("hostpool", 250, 200)
    assert flags.kept_fields == ("a", "b")
    assert flags.is_mode_known
    assert not parse_options([*given, "--mode=foo"]).is_mode_known
