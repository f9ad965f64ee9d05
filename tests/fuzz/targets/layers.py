"""What lies between a socket and the commands: snappy, deflate, TLS; and what auth servers say."""

from __future__ import annotations

import contextlib
import ssl
import zlib
from collections.abc import Callable, Iterator
from functools import cache

import trustme

from penstock.net.layers import PIECE, Layer, LayerError, Layers
from penstock.net.tls import ServerTls, TlsError
from penstock.nsq.protocol.auth import AuthError, auth_answer, grants
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.snappy import STREAM_ID, SnappyLayer
from tests.fuzz.streams import same_however_cut
from tests.fuzz.targets import Target

_PLAIN_MAX = 100_000
"""So much of a stream is looked at: a few kB may become megabytes."""
_HANDSHAKE_MAX = 2 * (1 << 16)


def _decoded(make: Callable[[], Layer], data: bytes) -> bytes:
    """What the layer makes of the stream; nothing when that ends in an error.

    How much of a broken stream is still read may depend on how it comes.
    """

    def read(pieces: Iterator[bytes]) -> bytes | None:
        stack = Layers()
        stack.set([make()])
        found = b""
        try:
            for piece in pieces:
                stack.receive_data(piece)
                while plain := stack.read():
                    assert len(plain) <= PIECE
                    found += plain
                    if len(found) > _PLAIN_MAX:
                        return found[:_PLAIN_MAX]
                if stack.eof:
                    break
        except LayerError:
            return None
        return found

    return same_however_cut(data, read) or b""


def snappy(data: bytes) -> None:
    """Snappy's framing format, decoded; and what we make of it is read again."""
    plain = _decoded(SnappyLayer, data)
    assert _decoded(SnappyLayer, SnappyLayer().send(plain)) == plain


def deflate(data: bytes) -> None:
    """A raw deflate stream: what zlib makes of the whole, as far as it goes."""
    plain = _decoded(DeflateLayer, data)
    assert _decoded(DeflateLayer, DeflateLayer().send(plain)) == plain


@cache
def _server() -> ServerTls:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    with (
        issued.private_key_pem.tempfile() as key,
        issued.cert_chain_pems[0].tempfile() as certificate,
    ):
        return ServerTls(certificate, key)


def tls(data: bytes) -> None:
    """A handshake of any bytes: refused in words, or more is awaited, within bounds."""
    layer = _server().layer()
    for start in range(0, len(data), 300):
        layer.receive_data(data[start : start + 300])
        try:
            done = layer.shake_hands()
        except TlsError as error:
            assert str(error)
            layer.take_output()
            return
        assert not done, "nobody can end a handshake without our keys"
        assert len(layer.take_output()) < _HANDSHAKE_MAX
    assert str(layer.cut_short())


def auth_answers(data: bytes) -> None:
    """What an auth server answers: a grant, or an AuthError of one line."""
    try:
        granted = grants(200, data)
    except AuthError as error:
        assert "\n" not in str(error)
        return
    assert granted.ttl_ns > 0
    granted.allows("topic", "channel")
    granted.allows("topic")
    auth_answer(granted)


def _hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="h")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _snappy(*parts: bytes) -> bytes:
    layer = SnappyLayer()
    return b"".join(map(layer.send, parts))


def _deflate(*parts: bytes) -> bytes:
    layer = DeflateLayer()
    return b"".join(map(layer.send, parts))


_NOISE = bytes(range(256)) * 3
_STREAMS = [(b"  V2", b"NOP\n"), (b"a" * 5000, _NOISE), (b"x",)]

TARGETS = {
    "snappy": Target(
        snappy,
        [_snappy(*parts) for parts in _STREAMS]
        + [_snappy(b"a") + b"\x80\3\0\0abc" * 3 + _snappy(b"b")],
        [
            STREAM_ID,
            b"\0\x05\0\0",
            b"\x01\x05\0\0",
            b"\xfe\0\0\0",
            b"\xff\xff\xff",
            b"\x80\x80\x80",
        ],
    ),
    "deflate": Target(
        deflate,
        [_deflate(*parts) for parts in _STREAMS]
        + [zlib.compress(b"not raw"), b"\0\0\0\xff\xff" * 9 + b"\x03\0" + b"behind the end"],
        [b"\0\0\0\xff\xff", b"\x01\0\0\xff\xff", b"\x03\0", b"\0\x01\0\xfe\xff"],
    ),
    "tls": Target(
        tls,
        [
            _hello(),
            _hello() * 2,
            b"\x16\x03\x01\0\x05hello",
            b"\x15\x03\x01\0\x02\x02\x28",
            b"GET /",
        ],
        [b"\x16\x03\x01", b"\x16\x03\x03\x40\0", b"\x17\x03\x03", b"\xff\xff", b"\0\0"],
    ),
    "auth_answers": Target(
        auth_answers,
        [
            b'{"ttl":3600,"identity":"i","identity_url":"http://h","authorizations":[{"permissions":'
            b'["subscribe","publish"],"topic":".*","channels":["^c[a-z]+$","x|y"]}]}',
            b'{"ttl":1,"authorizations":[{"topic":"(","channels":[".*"]}]}',
            b'{"ttl":9223372036854775807,"authorizations":null}',
            b'{"identity":"\\ud800","ttl":5}',
        ],
        [b"(", b")", b"{1000}", b"a{1,900}", b"[^", b"\\p{Greek}", b"null", b"-1", b"1e9", b"[]"],
    ),
}
