"""How a connection begins: the handshake's frames, what a node says of itself, tls_* options."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.net.tls.tls_layer import ServerTls, TlsError
from penstock.nsq.client.aio.connection import Outflow
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.handshake import ANSWER_MAX, AnswerReader, Handshake, HandshakeStep
from penstock.nsq.client.connect.server_info import ServerInfo, StrangeAnswerError
from penstock.nsq.client.connect.tls import context_of, layer_of
from penstock.nsq.client.errors import BadTlsOptions
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Error, Frame, Response
from tests.unit.net.certificates import Certificates
from tests.unit.net.tls.test_tls_layer import server, shake
from tests.unit.nsq.client.memory_node import cut


@given(
    texts=st.lists(st.binary(max_size=20), max_size=5),
    sizes=st.lists(st.integers(0, 12), max_size=20),
)
def test_any_cut(texts: list[bytes], sizes: list[int]) -> None:
    reader = AnswerReader()
    found: list[Frame] = []
    for part in cut(b"".join(map(frames.response, texts)), sizes):
        reader.receive_data(part)
        while (frame := reader.next()) is not None:
            found.append(frame)
    assert found == [Response(text) for text in texts]
    assert reader.rest() == b""


@given(rest=st.binary(max_size=40))
def test_what_follows_is_not_looked_at(rest: bytes) -> None:
    reader = AnswerReader()
    reader.receive_data(frames.error("E_X") + rest)
    assert reader.next() == Error("E_X")
    assert reader.rest() == rest
    assert reader.rest() == b""
    assert reader.next() is None


@pytest.mark.parametrize("size", [0, 3, ANSWER_MAX + 1, 2**32 - 1])
def test_sizes_that_no_answer_has(size: int) -> None:
    reader = AnswerReader()
    reader.receive_data(size.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"an answer of {size} bytes"):
        reader.next()


ADDRESS = "127.0.0.1:4150"
CONFIG = Config(client_id="c", hostname="h")


def begun(config: Config = CONFIG, topic: str = "", channel: str = "") -> Handshake:
    handshake = Handshake(ADDRESS, config, topic, channel)
    ask = handshake.begin()
    assert ask.what == handshake.awaited == "IDENTIFY"
    assert ask.command.startswith(b"  V2IDENTIFY\n")
    return handshake


def test_a_consumer_with_auth_and_heartbeats() -> None:
    handshake = begun(Config(auth_secret="s"), "t", "c")
    assert handshake.receive(Response(b"_heartbeat_")) is None
    assert handshake.receive(Response(b'{"auth_required":true}')) == HandshakeStep(
        "AUTH", b"AUTH\n\0\0\0\1s"
    )
    assert handshake.receive(Response(b"_heartbeat_")) == HandshakeStep("AUTH", b"NOP\n")
    assert handshake.awaited == "AUTH"
    assert handshake.receive(Response(b"{}")) == HandshakeStep("SUB", b"SUB t c\n")
    assert not handshake.done
    assert handshake.receive(Response(b"OK")) is None
    assert handshake.done


def test_upgrades_come_in_order_and_before_auth() -> None:
    handshake = begun(Config(auth_secret="s"))
    answer = b'{"snappy":true,"deflate":true,"tls_v1":true,"auth_required":true}'
    asks = [handshake.receive(Response(answer))]
    while asks[-1] is not None and asks[-1].layer:
        asks.append(handshake.receive(Response(b"OK")))
    assert [ask.layer or ask.what for ask in asks if ask] == ["tls", "deflate", "snappy", "AUTH"]


# --- what a node says of itself


TOLD = {
    "max_rdy_count": 50, "version": "1.3.0", "max_msg_timeout": 1000, "msg_timeout": 500,
    "tls_v1": True, "deflate": True, "deflate_level": 3, "max_deflate_level": 4, "snappy": False,
    "sample_rate": 7, "auth_required": True, "output_buffer_size": 1, "output_buffer_timeout": 0,
}  # fmt: skip


def test_all_fields() -> None:
    info = ServerInfo.of(json.dumps(TOLD | {"topology_zone": "z", "news": [1]}).encode())
    assert {name: getattr(info, name) for name in ServerInfo.__slots__} == TOLD
    assert info.layers == ["tls", "deflate"]


def test_what_is_missing_has_its_default() -> None:
    assert ServerInfo.of(b'{"version":"1","max_rdy_count":null}') == ServerInfo(version="1")
    assert ServerInfo.of(b"OK") == ServerInfo()
    assert ServerInfo().layers == []
    info = ServerInfo.of(b'{"snappy":true,"deflate":true,"tls_v1":true}')
    assert info.layers == ["tls", "deflate", "snappy"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b'{"max_rdy_count":true}', "has max_rdy_count true"),
        (b'{"max_rdy_count":2500.5}', "has max_rdy_count 2500.5"),
        (b'{"version":1}', "has version 1"),
        (b'{"tls_v1":"yes"}', 'has tls_v1 "yes"'),
        (b'{"snappy":1}', "has snappy 1"),
        (b"{", "is not JSON"),
        (b'{"\xff":1}', "is not JSON"),
        (b"{}x", "is not JSON"),
        (b'{"a":' + b"[" * 100_000, "is not JSON"),
    ],
)
def test_strange_answers(answer: bytes, reason: str) -> None:
    with pytest.raises(StrangeAnswerError, match=reason) as found:
        ServerInfo.of(answer)
    assert len(str(found.value)) < 200


@given(answer=st.binary(max_size=60).map(lambda rest: b"{" + rest))
def test_garbage_is_never_another_error(answer: bytes) -> None:
    with contextlib.suppress(StrangeAnswerError):
        assert isinstance(ServerInfo.of(answer), ServerInfo)


# --- the tls_* options


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_a_context_of_ones_own() -> None:
    context = ssl.create_default_context()
    assert context_of(Config(tls_config=context, tls_root_ca_file="/no/such")) is context


@pytest.mark.parametrize(
    ("word", "version"),
    [
        ("ssl3.0", ssl.TLSVersion.MINIMUM_SUPPORTED),
        ("tls1.2", ssl.TLSVersion.TLSv1_2),
        ("tls1.3", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_the_oldest_version(word: str, version: ssl.TLSVersion) -> None:
    assert context_of(Config(tls_min_version=word)).minimum_version == version


def test_the_name_of_a_server_is_the_host_of_its_address(files: Certificates) -> None:
    context = context_of(Config(tls_root_ca_file=files.ca))
    tls = ServerTls(files.cert, files.key)
    for address in ("localhost:4150", "127.0.0.1:4150", ":4150"):
        shake(layer_of(context, address), tls.layer())
    with pytest.raises(TlsError, match=r"Hostname mismatch.*not valid for 'other'"):
        shake(layer_of(context, "other:4150"), tls.layer())
    insecure = Config(tls_insecure_skip_verify=True)
    shake(layer_of(context_of(insecure), "other:4150"), tls.layer())


def test_a_certificate_of_ours(files: Certificates, tmp_path: Path) -> None:
    known = files.names["known"]
    cert, key, both = (str(tmp_path / name) for name in ("c.pem", "k.pem", "both.pem"))
    known.cert_chain_pems[0].write_to_path(cert)
    known.private_key_pem.write_to_path(key)
    known.private_key_and_cert_chain_pem.write_to_path(both)
    for one, other in ((cert, key), (both, "")):
        context = context_of(Config(tls_root_ca_file=files.ca, tls_cert=one, tls_key=other))
        asking = server(files, "require-verify").layer()
        shake(layer_of(context, "localhost:1"), asking)
        assert asking.peer_name == "a client"
    with pytest.raises(BadTlsOptions, match=r"c\.pem and .*c\.pem are not a certificate and a key"):
        context_of(Config(tls_cert=cert))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tls_root_ca_file": "/no/such"}, "open /no/such: no such file or directory"),
        ({"tls_root_ca_file": __file__}, "no certificate in .*test_connect.py"),
        ({"tls_cert": "/no/such", "tls_key": __file__}, "open /no/such: no such file"),
        ({"tls_cert": __file__, "tls_key": "/no/such"}, "open /no/such: no such file"),
        (
            {"tls_cert": __file__, "tls_key": __file__},
            "test_connect.py are not a certificate and a key",
        ),
        ({"tls_key": __file__}, "tls_key is of no use without tls_cert"),
        ({"tls_min_version": "tls9"}, "tls_min_version 'tls9' is not a version"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadTlsOptions, match=reason) as found:
        context_of(Config(**options))  # type: ignore[arg-type]
    assert isinstance(found.value, ConfigError)


# --- who takes nothing is told apart from who takes slowly


class Pipe(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.limit: int | None = None

    def write(self, data: Any) -> None:
        self.held += len(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.held

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high


async def test_nothing_taken() -> None:
    told = asyncio.get_running_loop().create_future()
    outflow, pipe = Outflow(0.02, told.set_result), Pipe()
    outflow.write(b"nobody there yet")
    outflow.start(pipe)
    assert pipe.limit == 0
    outflow.write(b"x" * 10)
    outflow.pause()
    async with asyncio.timeout(30):
        assert await told == "the server took nothing of what was sent for 0.02 s"


async def test_a_little_taken_each_time() -> None:
    stalls: list[str] = []
    outflow, pipe = Outflow(60, stalls.append), Pipe()
    outflow.start(pipe)
    outflow.write(b"x" * 10)
    outflow.pause()
    for _ in range(9):
        pipe.held -= 1
        outflow.write(b"yy")  # more than was taken
        outflow._look()
    assert stalls == []
    outflow._look()
    assert len(stalls) == 1
    outflow.resume()
    assert outflow._watch is None
    outflow.pause()
    outflow.stop()
    assert outflow._watch is None
    outflow.write(b"gone")
    assert pipe.held == 10 - 9 + 18
