"""What lies between a socket and the commands: snappy, deflate, TLS; and what auth servers say."""

from __future__ import annotations

import contextlib
import ssl
import zlib
from collections.abc import Callable, Iterator
from functools import cache

import trustme

from penstock.net.tls.layers import PIECE, Layer, LayerError, Layers
from penstock.net.tls.tls_layer import ServerTls, TlsError, TlsLayer
from penstock.nsq.protocol.auth import AuthError, auth_answer, grants
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.snappy import STREAM_ID, SnappyLayer
from tools.fuzz.streams import same_however_cut

from . import Target

_PLAIN_MAX = 100_000
"""So much of a stream is looked at: a few kB may become megabytes."""
_HANDSHAKE_MAX = 2 * (1 << 16)
_PART = b"\0--"
_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def _decoded(make: Callable[[], Layer], data: bytes) -> bytes:
    """What the layer makes of the stream; nothing when that ends in an error, or is too much.

    How much of a broken stream is still read may depend on how it comes, so whether the error or
    the end of what we look at comes first.
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
                        return None
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


def tls_records(data: bytes) -> None:
    """Records after a handshake, some of them damaged: what was sent is read up to the damage.

    The input says what becomes of the records of a client that is in order, one part for each: sent
    as they are, with a bit changed, cut short, repeated, left out, or behind some bytes of noise.
    """
    version = _VERSIONS[len(data) % len(_VERSIONS)]
    server, client = _connected(version)
    sent, damaged = b"", False
    stream = b""
    for part in data.split(_PART):
        plain = part[2:]
        record = client.send(plain) if plain else b""
        changed = _mishap(record, part[0] if part else 0, part[1] if len(part) > 1 else 0)
        sent += b"" if damaged or not changed.startswith(record) else plain
        damaged |= changed != record
        stream += changed
    found = _read_records(server, stream, 1 + len(data) % 500)
    assert sent.startswith(found), "it reads on behind the damage"
    assert damaged or found == sent
    server.send(b"answer")
    server.end()


def _mishap(record: bytes, kind: int, place: int) -> bytes:
    if not record:
        return record
    at = place % len(record)
    match kind % 8:
        case 1:
            return record[:at] + bytes([record[at] ^ 1 << kind // 8 % 8]) + record[at + 1 :]
        case 2:
            return record[:at]
        case 3:
            return record * 2
        case 4:
            return b""
        case 5:
            return bytes([kind, 3, 3, 0, place]) + record
        case 6:
            return record[at:]
    return record


def _read_records(server: TlsLayer, stream: bytes, step: int) -> bytes:
    found = b""
    for start in range(0, len(stream), step):
        server.receive_data(stream[start : start + step])
        try:
            while plain := server.read():
                assert len(plain) <= PIECE
                found += plain
        except LayerError as error:
            assert str(error)
            assert "\n" not in str(error)
            with contextlib.suppress(LayerError):
                assert not server.read(), "it has failed for good"
            return found
        if server.eof:
            return found
    return found


def _connected(version: ssl.TLSVersion) -> tuple[TlsLayer, TlsLayer]:
    """A server and a client behind their handshake."""
    server, client = _server().layer(), TlsLayer(_client(version))
    done = [False, False]
    while not all(done):
        for index, (one, other) in enumerate(((client, server), (server, client))):
            done[index] = done[index] or one.shake_hands()
            if output := one.take_output():
                other.receive_data(output)
    assert server.read() == client.read() == b""  # what came behind the handshake, such as tickets
    return server, client


@cache
def _client(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    return context


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
    "tls_records": Target(
        tls_records,
        [
            _PART.join([b"\0\0hello", b"\0\0" + b"x" * 3000, b"\1\7damaged", b"\0\0behind"]),
            _PART.join([b"\0\0a", b"\3\0twice", b"\0\0b"]),
            _PART.join([b"\0\0a", b"\2\x05cut", b"\x15\x02noise", b"\6\x03tail", b"\4\0gone"]),
        ],
        [_PART, *(bytes([kind, 3]) for kind in range(8)), b"\x15\2", b"\x16\2", b"\x0d\xff"],
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
