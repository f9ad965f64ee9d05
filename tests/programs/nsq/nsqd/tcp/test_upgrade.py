"""TLS and compression on the TCP port of a real nsqd process (NSQ spec 1.2 and 1.6).

The client is the conformance tests' own, which shares no code with the layers under test.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.net.http.client.once import get
from penstock.net.tls import layered
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import Daemon, run_nsqd
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Start, identify, pub
from tools.harness.certificates import Certificates
from tools.harness.patience import patient_nsqd
from tools.replay.connection import ERROR, Connection
from tools.replay.layers import Deflate, LayerError, Snappy

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


# --- every combination


@pytest.mark.parametrize("fields", COMBINATIONS, ids=name_of)
async def test_an_error_comes_through_the_layers_behind_what_is_owed(
    fields: dict[str, Any], nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    await client.upgrade(**fields)
    error = await client.ask(b"NONSENSE\n" + bytes(100_000))
    assert error == (ERROR, b"E_INVALID invalid command NONSENSE")
    assert await client.connection.closed() is None
    client = await connect(nsqd)
    await client.upgrade(**fields)
    await client.connection.send(pub("ending", b"x") + pub("ending", b"cut short")[:-3])
    client.connection.half_close()
    assert await client.connection.frame() == OK
    error = (ERROR, b"E_BAD_MESSAGE PUB failed to read message body")
    assert await client.connection.frame() == error


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


# --- pipelining and odd streams


async def test_what_comes_with_the_identify_belongs_to_the_next_layer(
    nsqd: Daemon, connect: Connect
) -> None:
    client = await connect(nsqd)
    stream = Snappy().encode(pub("early", b"x") + b"NOP\n")
    await client.connection.send(identify(feature_negotiation=True, snappy=True) + stream)
    await client.connection.frame()
    client.connection.add(Snappy())
    assert [await client.connection.frame() for _ in range(2)] == [OK, OK]


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


# --- what goes wrong


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


# --- policies

REQUIRE = "--tls-client-auth-policy=require"
VERIFY = "--tls-client-auth-policy=require-verify"


@pytest.mark.parametrize("newest", ["", "12"], ids=["tls1.3", "tls1.2"])
@pytest.mark.parametrize(
    ("policy", "certificate", "reason"),
    [
        (REQUIRE, None, "tls: client didn't provide a certificate"),
        (VERIFY, None, "tls: client didn't provide a certificate"),
        (VERIFY, "self", "tls: failed to verify certificate: x509: certificate signed by unknown"
         " authority"),
    ],
)  # fmt: skip
async def test_a_certificate_that_is_refused_is_told_to_both(
    policy: str, certificate: str | None, reason: str, newest: str,
    daemons: Callable[..., Daemon], certificates: Certificates, connect: Connect,
) -> None:  # fmt: skip
    nsqd = daemons(policy, f"--tls-root-ca-file={certificates.ca}")
    client = await connect(nsqd)
    position = len(nsqd.log())
    await client.identify(tls_v1=True)
    with pytest.raises(LayerError, match="alert"):
        await shake_and_read(client, certificates.context(certificate, newest))
    await logged(nsqd, f"E_IDENTIFY_FAILED IDENTIFY failed {reason}")
    assert "Traceback" not in nsqd.log()[position:]


async def shake_and_read(client: Client, context: ssl.SSLContext) -> None:
    await client.connection.start_tls(context)
    is_12 = context.maximum_version == ssl.TLSVersion.TLSv1_2
    assert not is_12, "only with TLS 1.3 a client is told after its handshake"
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
