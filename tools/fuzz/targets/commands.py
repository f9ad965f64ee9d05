"""What nsqd hears on its TCP port: commands, IDENTIFY's JSON, the body of MPUB."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from penstock.nsq.protocol import encode
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.events import Close, Drop, Failure, Identify, State, Subscribe
from penstock.nsq.protocol.finishes import id_value, read_finishes
from penstock.nsq.protocol.frames import FIN_LENGTH
from penstock.nsq.protocol.identify import Features, Identity, identify, negotiate
from penstock.nsq.protocol.limits import MAX_LINE, Limits
from tools.fuzz.streams import same_however_cut
from tools.harness.naive_nsq import naive_frames, plain

from . import Target

LIMITS = Limits(max_msg_size=64, max_body_size=512)
FEATURES = Features("1.3.0")
_UNKNOWN = Identity.unknown("127.0.0.1", LIMITS)
_ID = b"0123456789abcdef"


def commands(data: bytes) -> None:
    """The stream of one connection, with the changes of state that a session would make."""
    same_however_cut(data, _session)


def _session(pieces: Iterator[bytes]) -> list[tuple[Any, ...]]:
    reader = CommandReader(LIMITS, expect_magic=True)
    found: list[tuple[Any, ...]] = []
    for piece in pieces:
        reader.receive_data(piece)
        while (event := reader.next_event()) is not None:
            found += plain(event)
            if isinstance(event, Drop) or (isinstance(event, Failure) and event.fatal):
                return found
            if isinstance(event, Subscribe):
                reader.state = State.SUBSCRIBED
            elif isinstance(event, Close):
                reader.state = State.CLOSING
            elif isinstance(event, Identify):
                found.append(_identified(event.body))
        # A line, or the body of one command with its sizes.
        assert reader.unread < max(MAX_LINE, 4 + LIMITS.max_body_size)
    failure = reader.eof()
    return found + (plain(failure) if failure is not None else [])


def _identified(body: bytes) -> tuple[str, ...]:
    try:
        identity = identify(body, LIMITS, _UNKNOWN)
        answer = negotiate(identity, FEATURES, LIMITS).response
    except ProtocolError as error:
        assert error.text.startswith(("E_BAD_BODY IDENTIFY ", "E_IDENTIFY_FAILED "))
        return ("refused", error.text)
    assert answer == b"OK" or answer.startswith(b"{")
    return ("identified", repr(identity))


def identify_json(data: bytes) -> None:
    """The JSON of an IDENTIFY; what is granted keeps to the limits."""
    try:
        identity = identify(data, LIMITS, _UNKNOWN)
        negotiate(identity, FEATURES, LIMITS)
    except ProtocolError:
        return
    assert 0 <= identity.sample_rate <= 99
    assert identity.heartbeat_interval <= LIMITS.max_heartbeat_interval
    assert 1 <= identity.output_buffer_size <= LIMITS.max_output_buffer_size
    assert 0 <= identity.output_buffer_timeout <= LIMITS.max_output_buffer_timeout
    assert 0 < identity.msg_timeout <= LIMITS.max_msg_timeout
    for text in (identity.client_id, identity.hostname, identity.user_agent):
        text.encode()  # it is shown in /stats: half a surrogate pair would break that


def mpub_body(data: bytes) -> None:
    """The body of an MPUB, as over HTTP: the quick readers against a loop."""
    try:
        bodies = Bodies.from_mpub(data, LIMITS.max_msg_size, LIMITS.max_body_size)
    except ProtocolError as error:
        assert error.code in ("E_BAD_BODY", "E_BAD_MESSAGE")
        return
    expected, at = [], 4
    for _ in range(struct.unpack_from(">I", data)[0]):
        size = struct.unpack_from(">I", data, at)[0]
        expected.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    assert at <= LIMITS.max_body_size
    _check_bodies(bodies, expected)


def mpub_lines(data: bytes) -> None:
    """The body of a text /mpub."""
    expected = [line for line in data.split(b"\n") if line]
    try:
        bodies = Bodies.from_lines(data, LIMITS.max_msg_size)
    except ProtocolError as error:
        assert error.code == "MSG_TOO_BIG"
        assert max(map(len, expected)) > LIMITS.max_msg_size
        return
    if bodies is None:
        assert not expected
    else:
        _check_bodies(bodies, expected)


def _check_bodies(bodies: Bodies, expected: list[bytes]) -> None:
    assert bodies.to_list() == expected
    assert bodies.count == len(expected)
    frames, positions = bodies.encode(1 << 60, 1)
    naive = naive_frames(expected, 1 << 60, 1)
    assert bytes(frames) == b"".join(naive)
    assert positions is None or [*positions] == [
        sum(map(len, naive[:count])) for count in range(len(naive) + 1)
    ]


def finishes(data: bytes) -> None:
    """A run of FIN lines against a naive loop."""
    expected = []
    for at in range(0, len(data) - FIN_LENGTH + 1, FIN_LENGTH):
        line = data[at : at + FIN_LENGTH]
        value = id_value(line[4:20])
        if line[:4] != b"FIN " or line[20:] != b"\n" or value is None:
            break
        expected.append(value)
    assert list(map(int, read_finishes(data, 0))) == expected


def _json(text: bytes) -> bytes:
    return encode.identify(text)


_FIN_RUN = b"".join(encode.finish(b"%016x" % number) for number in range(40))
_STREAMS = [
    _json(b'{"client_id":"c","feature_negotiation":true,"heartbeat_interval":1000}')
    + encode.subscribe("t", "c")
    + encode.ready(5)
    + _FIN_RUN
    + encode.requeue(_ID, 5)
    + encode.touch(_ID)
    + encode.CLS
    + encode.finish(_ID),
    encode.publish("t", b"body") * 3 + encode.deferred_publish("t#ephemeral", 100, b"later"),
    encode.multi_publish("t", [b"one", b"two"] * 8) + encode.NOP,
    encode.multi_publish("t", [b"a", b"bb", b"ccc"] * 8) + b"NOP\r\n",
    encode.auth(b"secret") + b"SUB t  c\nRDY 18446744073709551616\n",
    b"PUB t\n\xff\xff\xff\xff" + b"x" * 40,
    b"\n" * 3,
]

_IDENTITIES = [
    b'{"client_id":"a","hostname":"h","user_agent":"u/1","sample_rate":10,"msg_timeout":2000}',
    b'{"Heartbeat_Interval":-1,"output_buffer_size":-1,"output_buffer_timeout":null}',
    b'{"feature_negotiation":true,"tls_v1":true,"deflate":true,"deflate_level":9,"snappy":false}',
    b'{"client_id":"\\ud800","hostname":"\xff","x":[[{"y":1e999}]]}',
    b"null",
]

_WORDS = [b"PUB t\n", b"MPUB t\n", b"DPUB t 1\n", b"SUB t c\n", b"FIN ", b"\r\n", b"#ephemeral",
          b"IDENTIFY\n", b"AUTH\n", b"\0\0\0\x01", b"\0\0\0\x02", b"\xff\xff\xff\xff",
          b"\x7f\xff\xff\xff", _ID, b"18446744073709551615", b" "]  # fmt: skip

TARGETS = {
    "commands": Target(commands, [encode.MAGIC_V2 + stream for stream in _STREAMS], _WORDS),
    "identify": Target(
        identify_json,
        _IDENTITIES,
        [b"-1", b"null", b"true", b'"', b"\\u", b"[" * 50, b"9" * 30, b"1.0", b"e9"],
    ),
    "mpub_body": Target(
        mpub_body,
        [encode.multi_body([b"x" * size] * 20) for size in (1, 5, 20)]
        + [encode.multi_body([b"a", b"bb", b"c" * 60]), encode.multi_body([b"m"])],
        [b"\0\0\0\x01", b"\0\0\0\x02", b"\xff\xff\xff\xff"],
    ),
    "mpub_lines": Target(mpub_lines, [b"one\ntwo\n\nthree", b"\n", b"x" * 65], [b"\n", b"\n\n"]),
    "finishes": Target(finishes, [_FIN_RUN, _FIN_RUN[:-1], encode.finish(b"F" * 16) * 14], [b"\n"]),
}
