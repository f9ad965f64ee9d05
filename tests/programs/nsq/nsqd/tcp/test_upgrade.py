"""TLS and compression on the TCP port of a real nsqd process (NSQ spec 1.2 and 1.6).

The client is the conformance tests' own, which shares no code with the layers under test.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.net.http.client.once import get
from penstock.net.tls import layered
from penstock.net.tls.layers import Layer, Layers
from penstock.net.tls.tls_layer import TlsLayer
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.nsq.protocol.snappy import SnappyLayer
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import Daemon, run_nsqd
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Start, identify, mpub, pub
from tools.harness.certificates import COMMON_NAME, Certificates
from tools.harness.patience import patient_nsqd
from tools.replay.connection import ERROR, MESSAGE, Connection
from tools.replay.layers import SNAPPY_IDENTIFIER, Deflate, LayerError, Snappy

OK = (0, b"OK")
PATIENT = patient_nsqd("penstock.net.tls.layered", "HANDSHAKE_S")
"""A real nsqd that waits for a handshake of a test that is held up for seconds."""
COMBINATIONS = [
    {"tls_v1": True},
    {"snappy": True},
    {"deflate": True},
    {"tls_v1": True, "snappy": True},
    {"tls_v1": True, "deflate": True, "deflate_level": 3},
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def daemons(certificates: Certificates) -> Iterator[Callable[..., Daemon]]:
    """Real nsqd processes, one for each set of flags."""
    running: dict[tuple[str, ...], Daemon] = {}
    with ExitStack() as stack:

        def daemon(*flags: str) -> Daemon:
            if flags not in running:
                given = [*certificates.flags(), "--https-address=127.0.0.1:0", *flags]
                running[flags] = stack.enter_context(run_nsqd(*given, program=PATIENT))
            return running[flags]

        yield daemon


@pytest.fixture
def nsqd(daemons: Callable[..., Daemon]) -> Daemon:
    return daemons()


class Client:
    """A connection and how it was upgraded."""

    def __init__(self, connection: Connection, certificates: Certificates) -> None:
        self.connection = connection
        self.certificates = certificates
        self.ssl: ssl.SSLObject | None = None

    @classmethod
    async def open(cls, nsqd: Daemon, certificates: Certificates) -> Client:
        client = cls(await Connection.open(nsqd.tcp_port), certificates)
        await client.connection.send(MAGIC_V2)
        return client

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        """Send; the next frame."""
        await self.connection.send(data)
        return await self.connection.frame()

    async def identify(self, **fields: Any) -> dict[str, Any]:
        kind, answer = await self.ask(identify(feature_negotiation=True, **fields))
        assert kind == 0, answer
        found: dict[str, Any] = json.loads(answer)
        return found

    async def upgrade(
        self, certificate: str | None = None, newest: str = "", **fields: Any
    ) -> dict[str, Any]:
        """IDENTIFY, and then all that the answer says."""
        answer = await self.identify(**fields)
        if answer["tls_v1"]:
            context = self.certificates.context(certificate, newest)
            self.ssl = (await self.connection.start_tls(context)).tls
            assert await self.connection.frame() == OK
        if answer["snappy"] or answer["deflate"]:
            self.connection.add(Snappy() if answer["snappy"] else Deflate())
            assert await self.connection.frame() == OK
        return answer


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect(certificates: Certificates) -> AsyncIterator[Connect]:
    opened = []

    async def one(nsqd: Daemon) -> Client:
        opened.append(await Client.open(nsqd, certificates))
        return opened[-1]

    yield one
    for client in opened:
        client.connection.close()


async def stats_of(nsqd: Daemon, client_id: str) -> dict[str, Any]:
    """What /stats says of a client that has published."""
    answer = await get(f"http://{nsqd.http}/stats?format=json", TIMEOUT_S)
    producers = json.loads(answer.body)["producers"]
    found: dict[str, Any] = next(each for each in producers if each["client_id"] == client_id)
    return found


def name_of(fields: dict[str, Any]) -> str:
    return "-".join(key for key, value in fields.items() if value is True)


# --- every combination ----------------------------------------------------------------------------


@pytest.mark.parametrize("fields", COMBINATIONS, ids=name_of)
async def test_messages_go_both_ways(
    fields: dict[str, Any], nsqd: Daemon, connect: Connect
) -> None:
    client, topic = await connect(nsqd), f"both-{name_of(fields)}"
    answer = await client.upgrade(client_id=topic, **fields)
    asked = {key: fields.get(key, False) for key in ("tls_v1", "snappy", "deflate")}
    assert {key: answer[key] for key in asked} == asked
    assert answer["deflate_level"] == fields.get("deflate_level", 6)
    random = os.urandom(128_000)
    bodies = [b"x", b"text " * 25_600, random, b"y" * 500_000, b"z"]
    for body in bodies[:2]:
        assert await client.ask(pub(topic, body)) == OK
    assert await client.ask(mpub(topic, *bodies[2:])) == OK
    found = await stats_of(nsqd, topic)
    assert (found["tls"], found["snappy"], found["deflate"]) == tuple(asked.values())
    assert await client.ask(f"SUB {topic} c\n".encode()) == OK
    await client.connection.send(b"RDY 10\n")
    for body in bodies:
        kind, data = await client.connection.frame()
        assert (kind, data[26:] == body) == (MESSAGE, True)
        await client.connection.send(b"FIN " + data[10:26] + b"\n")
    assert await client.ask(b"CLS\n") == (0, b"CLOSE_WAIT")


@pytest.mark.parametrize("fields", COMBINATIONS, ids=name_of)
async def test_an_error_comes_through_the_layers_and_ends_the_connection(
    fields: dict[str, Any], nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    await client.upgrade(**fields)
    error = await client.ask(b"NONSENSE\n" + bytes(100_000))
    assert error == (ERROR, b"E_INVALID invalid command NONSENSE")
    assert await client.connection.closed() is None


@pytest.mark.parametrize("fields", COMBINATIONS, ids=name_of)
async def test_the_end_of_input_gets_what_is_owed(
    fields: dict[str, Any], nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    await client.upgrade(**fields)
    await client.connection.send(pub("ending", b"x") + pub("ending", b"cut short")[:-3])
    client.connection.half_close()
    assert await client.connection.frame() == OK
    error = b"E_BAD_MESSAGE PUB failed to read message body"
    assert await client.connection.frame() == (ERROR, error)


@pytest.mark.parametrize("fields", COMBINATIONS, ids=name_of)
async def test_a_later_identify_upgrades_nothing(
    fields: dict[str, Any], nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    await client.upgrade(**fields)
    assert await client.ask(identify(client_id="again")) == OK
    answer = await client.identify()
    assert not any(answer[name] for name in ("tls_v1", "snappy", "deflate"))
    assert await client.ask(pub("again", b"x")) == OK


@pytest.mark.parametrize("fields", COMBINATIONS, ids=name_of)
async def test_our_own_layers_serve_a_client_as_well(
    fields: dict[str, Any], nsqd: Daemon, connect: Connect, certificates: Certificates
) -> None:
    client, layers = await connect(nsqd), Layers()
    stack: list[Layer] = []
    await client.identify(**fields)
    wire = Wire(client.connection._reader, client.connection._writer, layers)
    if "tls_v1" in fields:
        tls = TlsLayer(certificates.context(), server_name="localhost")
        await wire.shake_hands(tls)
        stack = [tls]
        layers.set(stack)
        assert await wire.frame() == OK
    if "snappy" in fields or "deflate" in fields:
        inner = SnappyLayer() if "snappy" in fields else DeflateLayer(9)
        unread, wire.plain = wire.plain or client.connection._plain, b""
        layers.set([*stack, inner], unread)
        assert await wire.frame() == OK
    for body in (b"x", b"text " * 25_600):
        wire.send(pub("own", body))
        assert await wire.frame() == OK


class Wire:
    """A client on the sans-I/O layers alone."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, layers: Layers
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._layers = layers
        self.plain = b""

    async def shake_hands(self, tls: TlsLayer) -> None:
        while not tls.shake_hands():
            self._writer.write(tls.take_output())
            tls.receive_data(await self._reader.read(1 << 16))
        self._writer.write(tls.take_output())

    def send(self, data: bytes) -> None:
        self._writer.write(self._layers.send(data))

    async def frame(self) -> tuple[int, bytes]:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.plain) < 10:
                while piece := self._layers.read():
                    self.plain += piece
                if len(self.plain) < 10:
                    self._layers.receive_data(await self._reader.read(1 << 16))
        size, kind = struct.unpack_from(">ii", self.plain)
        data, self.plain = self.plain[8 : 4 + size], self.plain[4 + size :]
        return kind, data


async def test_a_later_identify_may_change_the_compression(nsqd: Daemon, connect: Connect) -> None:
    client = await connect(nsqd)
    await client.upgrade(tls_v1=True, snappy=True)
    assert (await client.identify(deflate=True))["deflate"]
    old, new = client.connection._layers.pop(), Deflate()
    assert isinstance(old, Snappy)
    client.connection._layers.append(new)
    client.connection._plain = new.decode(old._buffer)  # what came with the answer
    assert await client.connection.frame() == OK
    assert await client.ask(pub("change", b"x")) == OK


async def test_a_later_identify_may_begin_tls_anew(nsqd: Daemon, connect: Connect) -> None:
    client = await connect(nsqd)
    await client.upgrade(tls_v1=True, deflate=True)
    assert (await client.identify(tls_v1=True))["tls_v1"]
    client.connection._layers.clear()
    await client.connection.start_tls(client.certificates.context())
    assert await client.connection.frame() == OK
    assert await client.ask(pub("anew", b"x")) == OK


async def test_heartbeats_go_through_the_layers(start: Start, certificates: Certificates) -> None:
    # With a clock that stands still, who is late to answer is not taken for silent.
    nsqd = await start(FakeClock(), tls_cert=str(certificates.cert), tls_key=str(certificates.key),
                       https_address="")  # fmt: skip
    connection = await Connection.open(nsqd.nsqd.ports.tcp)
    client = Client(connection, certificates)
    await connection.send(MAGIC_V2)
    await client.upgrade(tls_v1=True, snappy=True, heartbeat_interval=1000)
    assert await connection.frame() == (0, b"_heartbeat_")
    await connection.send(b"NOP\n")
    assert await connection.frame() == (0, b"_heartbeat_")
    connection.close()


# --- pipelining and odd streams -------------------------------------------------------------------


async def test_what_comes_with_the_identify_belongs_to_the_next_layer(
    nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    stream = Snappy().encode(pub("early", b"x") + b"NOP\n")
    await client.connection.send(identify(feature_negotiation=True, snappy=True) + stream)
    await client.connection.frame()
    client.connection.add(Snappy())
    assert [await client.connection.frame() for _ in range(2)] == [OK, OK]


async def test_the_golden_bytes_of_snappy(nsqd: Daemon, connect: Connect) -> None:
    client = await connect(nsqd)
    await client.identify(snappy=True)
    found = await client.connection.exactly(len(SNAPPY_IDENTIFIER))
    assert found == SNAPPY_IDENTIFIER
    ok = bytes.fromhex("00000006000000004f4b")
    header = b"\x01\x0e\x00\x00" + struct.pack("<I", masked_crc32c(ok))
    assert await client.connection.exactly(18) == header + ok


def masked_crc32c(data: bytes) -> int:
    """Bit by bit, as the format's description says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


async def test_layers_byte_by_byte(nsqd: Daemon, connect: Connect) -> None:
    client = await connect(nsqd)
    await client.upgrade(tls_v1=True, snappy=True)
    data = pub("bytes", b"some body")
    for layer in reversed(client.connection._layers):
        data = layer.encode(data)
    for at in range(len(data)):
        await client.connection.send_below(data[at : at + 1])
        await asyncio.sleep(0)
    assert await client.connection.frame() == OK


# --- what goes wrong ------------------------------------------------------------------------------


async def logged(nsqd: Daemon, text: str) -> None:
    """Wait until a line of the log has this text."""
    async with asyncio.timeout(TIMEOUT_S):
        while text not in nsqd.log():  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.01)


async def test_an_end_instead_of_a_handshake(nsqd: Daemon, connect: Connect) -> None:
    client = await connect(nsqd)
    await client.identify(tls_v1=True)
    client.connection.half_close()
    assert await client.connection.frame() == (ERROR, b"E_IDENTIFY_FAILED IDENTIFY failed EOF")
    assert await client.connection.closed() is None


async def test_silence_instead_of_a_handshake(
    start: Start, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert layered.HANDSHAKE_S == 5
    monkeypatch.setattr(layered, "HANDSHAKE_S", 0.2)
    nsqd = await start(tls_cert=str(certificates.cert), tls_key=str(certificates.key),
                       https_address="")  # fmt: skip
    client = await nsqd.connect()
    await client.ask(identify(feature_negotiation=True, tls_v1=True))
    client.send(b"\x16\x03\x01")  # a beginning is not enough
    own = client.writer.get_extra_info("sockname")[1]
    reason = f"read tcp 127.0.0.1:{nsqd.nsqd.ports.tcp}->127.0.0.1:{own}: i/o timeout"
    assert await client.error() == f"E_IDENTIFY_FAILED IDENTIFY failed {reason}"
    assert await client.closed()


@pytest.mark.parametrize(
    ("layer", "words"), [("snappy", "snappy: corrupt input"), ("deflate", "deflate: Error")]
)
async def test_garbage_inside_a_compression_closes_without_a_frame(
    layer: str, words: str, nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    fields: dict[str, Any] = {layer: True}
    await client.upgrade(tls_v1=True, **fields)
    inner = client.connection._layers.pop()
    await client.connection.send(b"\xff" * 100)
    client.connection._layers.append(inner)
    assert await client.connection.closed() is None
    await logged(nsqd, words)


async def test_garbage_inside_tls_closes_with_an_alert(nsqd: Daemon, connect: Connect) -> None:
    client = await connect(nsqd)
    await client.upgrade(tls_v1=True)
    await client.connection.send_below(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert await client.connection.closed() is None
    await logged(nsqd, "bad record MAC")


async def test_a_bomb_is_taken_in_pieces(nsqd: Daemon, connect: Connect) -> None:
    """Commands that are a thousand times as long when they are unpacked."""
    client = await connect(nsqd)
    await client.upgrade(deflate=True)
    client.connection._layers.clear()
    before = resident(nsqd.pid)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    lines = b"NOP " + bytes(16_000) + b"\n"
    for _ in range(12):
        bomb = packed.compress(lines * 1000) + packed.flush(zlib.Z_SYNC_FLUSH)
        assert len(bomb) < 100_000
        await client.connection.send(bomb)
    end = packed.compress(b"WHAT\n") + packed.flush(zlib.Z_SYNC_FLUSH)
    await client.connection.send(end)
    answer = asyncio.create_task(client.connection._reader.read(1))
    seen = 0
    async with asyncio.timeout(20 * TIMEOUT_S):
        while not answer.done():
            other = await Client.open(nsqd, client.certificates)
            assert await other.ask(pub("aside", b"others are served")) == OK
            other.connection.close()
            seen = max(seen, resident(nsqd.pid))
    assert await answer
    assert seen - before < 16 << 20  # of 192 MB


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- policies -------------------------------------------------------------------------------------

REQUIRE = "--tls-client-auth-policy=require"
VERIFY = "--tls-client-auth-policy=require-verify"


@pytest.mark.parametrize("newest", ["", "12"], ids=["tls1.3", "tls1.2"])
@pytest.mark.parametrize(
    ("policy", "certificate", "accepted"),
    [
        (REQUIRE, None, False),
        (REQUIRE, "client", True),
        (REQUIRE, "self", True),
        (VERIFY, None, False),
        (VERIFY, "client", True),
        (VERIFY, "self", False),
        ("--tls-client-auth-policy=nonsense", None, True),
    ],
)
async def test_client_certificates(
    policy: str, certificate: str | None, accepted: bool, newest: str,
    daemons: Callable[..., Daemon], certificates: Certificates, connect: Connect,
) -> None:  # fmt: skip
    nsqd = daemons(policy, f"--tls-root-ca-file={certificates.ca}")
    client = await connect(nsqd)
    position = len(nsqd.log())
    await client.identify(tls_v1=True)
    if accepted:
        await client.connection.start_tls(certificates.context(certificate, newest))
        assert await client.connection.frame() == OK
        assert await client.ask(pub("welcome", b"x")) == OK
        return
    with pytest.raises(LayerError, match="alert"):
        await shake_and_read(client, certificates.context(certificate, newest))
    reason = (
        "tls: client didn't provide a certificate"
        if certificate is None
        else "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )
    await logged(nsqd, f"E_IDENTIFY_FAILED IDENTIFY failed {reason}")
    assert "Traceback" not in nsqd.log()[position:]


async def shake_and_read(client: Client, context: ssl.SSLContext) -> None:
    await client.connection.start_tls(context)
    newest = context.maximum_version
    assert newest != ssl.TLSVersion.TLSv1_2, (
        "only with TLS 1.3 a client is told after its handshake"
    )
    await client.connection._fill()


async def test_a_policy_alone_requires_tls_of_all(
    daemons: Callable[..., Daemon], certificates: Certificates, connect: Connect
) -> None:
    nsqd = daemons(REQUIRE, f"--tls-root-ca-file={certificates.ca}")
    client = await connect(nsqd)
    text = b"E_INVALID cannot PUB in current state (TLS required)"
    assert await client.ask(pub("t", b"x")) == (ERROR, text)
    assert (await get(f"http://{nsqd.http}/ping", TIMEOUT_S)).status == 403


@pytest.mark.parametrize("newest", ["", "12"], ids=["tls1.3", "tls1.2"])
async def test_versions_and_suites_in_the_statistics(
    newest: str, nsqd: Daemon, connect: Connect
) -> None:
    client, name = await connect(nsqd), f"version-{newest}"
    await client.upgrade(tls_v1=True, newest=newest, client_id=name)
    assert await client.ask(pub("version", b"x")) == OK
    found = await stats_of(nsqd, name)
    assert client.ssl is not None
    suite = client.ssl.cipher()
    assert suite is not None
    assert found["tls_version"] == ("TLS1.2" if newest else "TLS1.3")
    number = {each["name"]: each["id"] & 0xFFFF for each in client.ssl.context.get_ciphers()}
    assert found["tls_cipher_suite"] == f"Unknown {number[suite[0]]}"
    assert found["tls_negotiated_protocol"] == ""
    assert found["tls_negotiated_protocol_is_mutual"] is True


async def test_the_minimum_version(daemons: Callable[..., Daemon], connect: Connect) -> None:
    nsqd = daemons("--tls-min-version=tls1.3")
    client = await connect(nsqd)
    await client.identify(tls_v1=True)
    with pytest.raises(LayerError, match="PROTOCOL_VERSION"):
        await client.connection.start_tls(client.certificates.context(newest="12"))
    await logged(nsqd, "tls: client offered only unsupported versions")
    assert (await (await connect(nsqd)).upgrade(tls_v1=True))["tls_v1"]


@pytest.mark.parametrize("required", ["true", "tcp-https"])
async def test_tls_required(
    required: str, daemons: Callable[..., Daemon], connect: Connect
) -> None:
    nsqd = daemons(f"--tls-required={required}")
    for command, name in ((pub("t", b"x"), "PUB"), (b"SUB t c\n", "SUB"), (b"WHAT\n", "WHAT")):
        text = f"E_INVALID cannot {name} in current state (TLS required)"
        assert await (await connect(nsqd)).ask(command) == (ERROR, text.encode())
    client = await connect(nsqd)
    await client.upgrade(tls_v1=True)
    assert await client.ask(pub("t", b"x")) == OK
    refused = await connect(nsqd)
    await refused.upgrade(snappy=True)
    assert (await refused.ask(b"NOP\n"))[0] == ERROR


async def test_features_can_be_switched_off(
    daemons: Callable[..., Daemon], connect: Connect
) -> None:
    nsqd = daemons("--snappy=false", "--deflate=false", "--max-deflate-level=3")
    answer = await (await connect(nsqd)).identify(snappy=True, deflate=True)
    assert (answer["snappy"], answer["deflate"]) == (False, False)
    assert (answer["max_deflate_level"], answer["deflate_level"]) == (3, 3)


async def test_the_name_in_the_certificate_is_known(
    start: Start, certificates: Certificates
) -> None:
    nsqd = await start(tls_cert=str(certificates.cert), tls_key=str(certificates.key),
                       https_address="", tls_client_auth_policy="require")  # fmt: skip
    connection = await Connection.open(nsqd.nsqd.ports.tcp)
    client = Client(connection, certificates)
    await connection.send(MAGIC_V2)
    await client.upgrade("client", tls_v1=True)
    (session,) = nsqd.nsqd.sessions
    ours = session.connection
    assert (ours.is_tls, ours.tls_common_name) == (True, COMMON_NAME)
    connection.close()
