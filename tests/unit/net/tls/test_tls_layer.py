"""The TLS layer against the standard library's TLS, over memory only; layers; renewal."""

from __future__ import annotations

import logging
import os
import ssl
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.net.tls.layers import PIECE, Bytes, Layer, LayerError, Layers
from penstock.net.tls.renewal import LOOK_NS, Renewed
from penstock.net.tls.tls_layer import (
    ClientAuth,
    ServerTls,
    TlsError,
    TlsLayer,
    _trust_what_is_shown,
    client_context,
)
from penstock.testing.clock import FakeClock
from tests.unit.net.certificates import Certificates

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
UNKNOWN_AUTHORITY = (
    "tls: failed to verify certificate: x509: certificate signed by unknown authority"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def server(files: Certificates, policy: str = "", **changes: object) -> ServerTls:
    auth = ClientAuth.of(policy)
    return ServerTls(files.cert, files.key, ca_file=files.ca, client_auth=auth, **changes)  # type: ignore[arg-type]


def shake(client: TlsLayer, other: TlsLayer) -> None:
    """Both handshakes, to their end. Raises TlsError."""
    done = [False, False]
    for _ in range(6):
        for at, (one, two) in enumerate(((client, other), (other, client))):
            done[at] = done[at] or one.shake_hands()
            two.receive_data(one.take_output())
    assert all(done)


def pair(files: Certificates, client: str = "", policy: str = "",
         newest: ssl.TLSVersion = TLS13) -> tuple[TlsLayer, TlsLayer]:  # fmt: skip
    one = TlsLayer(files.context(client, newest=newest), server_name="localhost")
    other = server(files, policy).layer()
    shake(one, other)
    return one, other


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_data_goes_both_ways(files: Certificates, version: ssl.TLSVersion) -> None:
    client, other = pair(files, newest=version)
    for text in (b"x", b"text" * 100_000):
        for one, two in ((client, other), (other, client)):
            two.receive_data(one.send(text))
            found = b""
            while piece := two.read():
                assert len(piece) <= PIECE
                found += piece
            assert found == text
    assert other.version == ("TLSv1.2" if version is TLS12 else "TLSv1.3")
    name, number = other.cipher
    assert name == client.cipher[0]
    assert number
    assert (other.protocol, other.peer_name) == ("", "")


@settings(max_examples=30)
@given(text=st.binary(min_size=1, max_size=50_000), cuts=st.lists(st.integers(1, 3000)))
def test_any_cut_of_the_stream(files: Certificates, text: bytes, cuts: list[int]) -> None:
    client, other = pair(files)
    sent, found = client.send(text), b""
    for size in [*cuts, len(sent)]:
        other.receive_data(sent[:size])
        sent = sent[size:]
        found += other.read()
    assert found == text


def test_a_handshake_byte_by_byte(files: Certificates) -> None:
    client, other = TlsLayer(files.context(), server_name="localhost"), server(files).layer()
    client.shake_hands()
    for byte in client.take_output():
        assert not other.shake_hands()
        other.receive_data(bytes([byte]))
    shake(client, other)


def test_the_farewell_is_an_end(files: Certificates) -> None:
    client, other = pair(files)
    other.receive_data(client.send(b"last words") + client.end())
    assert (other.read(), other.eof) == (b"last words", False) or other.eof
    assert (other.read(), other.eof) == (b"", True)


def test_damage_is_told_after_what_came_before_it(files: Certificates) -> None:
    client, other = pair(files)
    good, bad = client.send(b"good"), bytearray(client.send(b"bad"))
    bad[-1] ^= 1
    other.receive_data(good + bad)
    assert other.read() == b"good"
    for _ in range(2):
        with pytest.raises(LayerError, match="bad record MAC"):
            other.read()
    assert other.take_output(), "an alert"


def test_a_peer_without_tls_gets_no_tls(files: Certificates) -> None:
    layer = server(files).layer()
    layer.receive_data(b"GET ")
    assert not layer.shake_hands()
    layer.receive_data(b"/ HTTP/1.1\r\n")
    with pytest.raises(TlsError, match="first record does not look like a TLS handshake") as found:
        layer.shake_hands()
    assert found.value.head.startswith(b"GET /")
    assert layer.take_output() == b""


def test_a_handshake_cut_short(files: Certificates) -> None:
    layer = server(files).layer()
    assert str(layer.cut_short()) == "EOF"
    layer.receive_data(b"\x16\x03")
    assert str(layer.cut_short()) == "unexpected EOF"


def test_nonsense_in_a_handshake(files: Certificates) -> None:
    layer = server(files).layer()
    layer.receive_data(b"\x16\x03\x01\x00\x05hello")
    with pytest.raises(TlsError, match="tls: "):
        layer.shake_hands()
    assert layer.take_output()[:1] == b"\x15", "an alert"


def test_a_client_that_does_not_trust_the_server(files: Certificates) -> None:
    client = TlsLayer(client_context(), server_name="localhost")
    other = server(files).layer()
    with pytest.raises(TlsError, match=UNKNOWN_AUTHORITY):
        shake(client, other)
    other.receive_data(client.take_output())
    with pytest.raises(TlsError, match="remote error: tls: unknown certificate authority"):
        other.shake_hands()


@pytest.mark.parametrize("version", [TLS12, TLS13])
@pytest.mark.parametrize(
    ("policy", "client", "failure"),
    [
        ("", "unknown", None),
        ("require", "", "tls: client didn't provide a certificate"),
        ("require", "known", None),
        ("require", "unknown", None),
        ("require", "expired", None),
        ("require-verify", "", "tls: client didn't provide a certificate"),
        ("require-verify", "known", None),
        ("require-verify", "unknown", UNKNOWN_AUTHORITY),
        ("nonsense", "unknown", None),
    ],
)
def test_client_certificates(
    files: Certificates, policy: str, client: str, failure: str | None, version: ssl.TLSVersion
) -> None:
    if failure is None:
        _, other = pair(files, client, policy, version)
        names = {"known": "a client", "unknown": "a stranger"} if policy.startswith("req") else {}
        assert other.peer_name == names.get(client, "")
    else:
        with pytest.raises(TlsError, match=failure):
            pair(files, client, policy, version)


def test_what_one_client_shows_is_not_trusted_of_another(files: Certificates) -> None:
    """The trust in a certificate that is merely required lasts for one handshake."""
    tls = server(files, "require")
    for client in ("unknown", "expired"):
        shake(TlsLayer(files.context(client), server_name="localhost"), tls.layer())
    assert tls._context().cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x0b\x00\x00\x00",
        b"\x0b\x00\x00\x01\xff",
        b"\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x0b\x00\x00\x00\x00\x00\x00\x09\x00\x00\x05junk!",
    ],
)
def test_what_is_no_certificate_is_not_trusted(message: bytes) -> None:
    class Connection:
        context = None

    connection = Connection()
    for version in (TLS12, TLS13):
        _trust_what_is_shown(connection, "read", version, 22, 11, message)
    assert connection.context is None


def test_a_client_with_too_old_a_version(files: Certificates) -> None:
    client = TlsLayer(files.context(newest=TLS12), server_name="localhost")
    with pytest.raises(TlsError, match="tls: client offered only unsupported versions"):
        shake(client, server(files, min_version=772).layer())


@pytest.mark.parametrize("version", [769, 770, 771])
def test_old_versions_can_be_allowed(files: Certificates, version: int) -> None:
    """What OpenSSL makes of them is its affair; nothing warns, nothing fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tls = server(files, min_version=version)
    shake(TlsLayer(files.context(), server_name="localhost"), tls.layer())


def test_our_client_context_trusts_a_given_authority(files: Certificates) -> None:
    client = TlsLayer(client_context(files.ca), server_name="localhost")
    shake(client, server(files).layer())


def test_our_client_context_without_checks_and_with_a_certificate(
    files: Certificates, tmp_path: Path
) -> None:
    both = str(tmp_path / "both.pem")
    files.names["known"].private_key_and_cert_chain_pem.write_to_path(both)
    context = client_context(cert_file=both, verify=False)
    asking = server(files, "require-verify").layer()
    shake(TlsLayer(context, server_name="anything"), asking)
    assert asking.peer_name == "a client"
    with pytest.raises(ConfigError, match="failed to build client TLS config - open /no/such"):
        client_context(cert_file="/no/such")


def test_a_server_without_tls(files: Certificates) -> None:
    client = TlsLayer(client_context(files.ca), server_name="localhost")
    client.shake_hands()
    client.receive_data(b"\0\0\0\x06\0\0\0\0OK")
    with pytest.raises(TlsError, match="first record does not look like a TLS handshake"):
        client.shake_hands()


def test_renegotiation_is_off(files: Certificates) -> None:
    assert server(files)._context().options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("missing", ["cert", "key", "ca"])
def test_files_that_are_missing(files: Certificates, missing: str) -> None:
    names = {"cert": files.cert, "key": files.key, "ca": files.ca, missing: "/no/such/file"}
    with pytest.raises(ConfigError) as found:
        ServerTls(names["cert"], names["key"], ca_file=names["ca"])
    text = "failed to build TLS config - open /no/such/file: no such file or directory"
    assert str(found.value) == text


def test_files_that_are_wrong(files: Certificates, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    with pytest.raises(ConfigError, match="tls: private key does not match public key"):
        ServerTls(files.cert, other.key)
    with pytest.raises(ConfigError, match="are not a certificate and a key in PEM"):
        ServerTls(__file__, files.key)
    with pytest.raises(ConfigError, match="failed to append certificate to pool"):
        ServerTls(files.cert, files.key, ca_file=__file__)
    with pytest.raises(ConfigError, match="failed to append certificate to pool"):
        client_context(__file__)


def test_an_encrypted_key_is_named(files: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(Path(files.key).read_bytes(), None)
    protection = s.BestAvailableEncryption(b"secret")
    path = tmp_path / "locked.key"
    path.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, protection))
    with pytest.raises(ConfigError, match="is encrypted; decrypt it"):
        ServerTls(files.cert, str(path))


# --- The stack of layers, without any network ----------------------------------------------------


class Quoted(Layer):
    """Plain text in quotes; a piece is what lies between two of them."""

    def __init__(self, quote: bytes) -> None:
        self.quote = quote
        self._held = b""

    def receive_data(self, data: Bytes) -> None:
        self._held += bytes(data)

    def read(self) -> bytes:
        if self._held and not self._held.startswith(self.quote):
            raise LayerError("no quote")
        start, found, rest = self._held[1:].partition(self.quote)
        if not found:
            return b""
        self._held = rest
        return start

    def send(self, data: Bytes) -> bytes:
        return self.quote + bytes(data) + self.quote

    def end(self) -> bytes:
        self.eof = True
        return b"bye" + self.quote


def test_the_first_layer_is_next_to_the_socket() -> None:
    layers = Layers()
    layers.set([Quoted(b"<"), Quoted(b"'")])
    assert layers.send(b"x") == b"<'x'<"
    layers.receive_data(b"<'x'")
    assert layers.read() == b""
    layers.receive_data(b"'y<<'<")
    assert [layers.read() for _ in range(3)] == [b"x", b"y", b""]


def test_what_was_read_already_is_for_the_innermost() -> None:
    layers, outer = Layers(), Quoted(b"<")
    layers.set([outer], b"<a<<'b<")
    assert layers.read() == b"a"
    layers.set([outer, Quoted(b"'")], b"'early'")
    assert [layers.read() for _ in range(2)] == [b"early", b""]
    layers.receive_data(b"<'<")
    assert layers.read() == b"b"


def test_failures_and_ends_come_through() -> None:
    layers = Layers()
    layers.set([Quoted(b"<"), Quoted(b"'")])
    assert (layers.take_output(), layers.eof) == (b"", False)
    assert (layers.end(), layers.eof) == (b"bye<", True)
    layers.receive_data(b"<nonsense<")
    with pytest.raises(LayerError, match="no quote"):
        layers.read()


def test_without_layers_bytes_go_as_they_are() -> None:
    layers = Layers()
    assert (layers.send(b"x"), layers.end(), layers.take_output()) == (b"x", b"", b"")


# --- TLS contexts that follow their files --------------------------------------------------------


class Bench:
    """Two files of which contexts are made, by a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / "cert", folder / "key"]
        for file in self.files:
            file.write_text("1")
        self.clock = FakeClock()
        self.made: list[ssl.SSLContext] = []

    def make(self) -> ssl.SSLContext:
        if len({file.read_text() for file in self.files}) != 1:
            raise ConfigError("cert and key do not fit")
        self.made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        return self.made[-1]

    def renewed(self) -> Renewed:
        return Renewed(self.make, *map(str, self.files), "", clock=self.clock)

    def replace(self, *files: Path) -> None:
        for file in files:
            other = file.with_suffix(".new")
            other.write_text("2")
            os.replace(other, file)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_files_that_stay_are_read_once(bench: Bench) -> None:
    renewed = bench.renewed()
    first = renewed()
    bench.clock.advance(LOOK_NS)
    assert renewed() is first
    assert bench.made == [first]


def test_files_that_change_are_read_again_a_second_later(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    renewed = bench.renewed()
    first = renewed()
    bench.replace(*bench.files)
    bench.clock.advance(LOOK_NS - 1)
    assert renewed() is first
    bench.clock.advance(1)
    second = renewed()
    assert bench.made == [first, second]
    assert caplog.messages == [f"TLS: read {bench.files[0]}, {bench.files[1]} again"]


def test_half_of_a_renewal_leaves_the_context_until_the_other_half(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = bench.renewed()
    first = renewed()
    bench.replace(bench.files[0])
    for _ in range(3):
        bench.clock.advance(LOOK_NS)
        assert renewed() is first
    assert caplog.messages == [
        "TLS goes on with the certificates it has - cert and key do not fit"
    ], "once"
    bench.replace(bench.files[1])
    bench.clock.advance(LOOK_NS)
    assert renewed() is bench.made[1]


def test_files_that_could_not_be_read_are_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = bench.renewed()
    first = renewed()
    bench.replace(*bench.files)

    def fails(path: Path) -> str:
        raise ConfigError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fails)
        for _ in range(2):
            bench.clock.advance(LOOK_NS)
            assert renewed() is first
    assert caplog.text.count("too many open files") == 1
    bench.clock.advance(LOOK_NS)
    assert renewed() is bench.made[1]


def test_a_file_that_is_gone_for_a_while(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def make() -> ssl.SSLContext:
        try:
            return bench.make()
        except OSError as error:
            raise ConfigError(str(error)) from error

    renewed = Renewed(make, *map(str, bench.files), clock=bench.clock)
    first = renewed()
    text = bench.files[0].read_text()
    bench.files[0].unlink()
    bench.clock.advance(LOOK_NS)
    assert renewed() is first
    assert "No such file" in caplog.text
    bench.files[0].write_text(text)
    bench.clock.advance(LOOK_NS)
    assert renewed() is bench.made[1]


def test_what_cannot_be_used_at_the_start_is_an_error(bench: Bench) -> None:
    bench.replace(bench.files[1])
    with pytest.raises(ConfigError, match="do not fit"):
        bench.renewed()
