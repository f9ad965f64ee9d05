"""The HTTPS port, and the plain one where TLS is required (NSQ spec 2.1)."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.net.http.client.once import request
from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import HandshakeFailed
from penstock.testing.daemons import run_nsqd
from tests.forwarding import wait_until
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Start
from tools.harness.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def files(certificates: Certificates) -> dict[str, str]:
    return {"tls_cert": str(certificates.cert), "tls_key": str(certificates.key)}


def test_the_same_api_in_a_real_process(certificates: Certificates) -> None:
    import urllib.request

    with run_nsqd(*certificates.flags(), "--https-address=127.0.0.1:0") as nsqd:
        for scheme, port, context in (
            ("http", nsqd.http_port, None),
            ("https", nsqd.https_port, certificates.context()),
        ):
            base = f"{scheme}://localhost:{port}"
            with urllib.request.urlopen(f"{base}/ping", context=context) as answer:
                assert answer.read() == b"OK"
            body = b"message\n" * 100_000
            sent = urllib.request.Request(f"{base}/mpub?topic=t", data=body)
            with urllib.request.urlopen(sent, context=context) as answer:
                assert answer.read() == b"OK"
        with urllib.request.urlopen(f"{base}/stats?format=json", context=context) as answer:
            assert json.load(answer)["topics"][0]["message_count"] == 200_000
        assert "Traceback" not in nsqd.log()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_renewed_certificate_needs_no_restart(tmp_path: Path) -> None:
    """Both ports show it to the next connection; one that is open goes on."""
    files, renewed = Certificates(_made(tmp_path / "used")), Certificates(_made(tmp_path / "new"))

    def shown(port: int) -> str:
        return ssl.get_server_certificate(("localhost", port))

    with run_nsqd(*files.flags(), "--https-address=127.0.0.1:0") as nsqd:
        before = shown(nsqd.https_port)
        config = Config(tls_v1=True, tls_config=files.context())
        with Producer(nsqd.tcp, config=config) as producer:
            producer.publish("t", b"before")
            for old, new in ((files.cert, renewed.cert), (files.key, renewed.key)):
                os.replace(new, old)
            wait_until(lambda: shown(nsqd.https_port) != before, nsqd.log)
            producer.publish("t", b"after")
        with Producer(nsqd.tcp, config=config) as producer, pytest.raises(HandshakeFailed):
            producer.publish("t", b"x")  # by an authority that it does not know
        config = Config(tls_v1=True, tls_config=renewed.context())
        with Producer(nsqd.tcp, config=config) as producer:
            producer.publish("t", b"x")


async def test_where_tls_is_required_plain_http_only_says_so(
    start: Start, certificates: Certificates
) -> None:
    nsqd = await start(
        tls_required=TlsRequired.YES, https_address="127.0.0.1:0", **files(certificates)
    )
    daemon = nsqd.nsqd.ports
    expected = f'{{"message": "TLS_REQUIRED", "https_port": {daemon.https}}}'.encode()
    for method, path, body in (
        ("GET", "/ping", b""),
        ("POST", "/pub?topic=t", b"x"),
        ("POST", "/mpub?topic=t", bytes(6 << 20)),
        ("PUT", "/no/such/path", b"x"),
    ):
        url = f"http://127.0.0.1:{daemon.http}{path}"
        answer = await request(method, url, TIMEOUT_S, body=body)
        assert (answer.status, answer.body) == (403, expected)
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["x-nsq-content-type"] == "nsq; version=1.0"
    assert not nsqd.nsqd.node.broker.topics
    assert not nsqd.nsqd.node.stand_in.listeners, "nor does one that stands in for the loop"
    url = f"https://localhost:{daemon.https}/config/tls_required"
    assert (await request("GET", url, TIMEOUT_S, tls=certificates.context())).body == b"2"


async def test_a_policy_turns_it_on(start: Start, certificates: Certificates) -> None:
    nsqd = await start(tls_client_auth_policy="nonsense", https_address="", **files(certificates))
    assert nsqd.nsqd.ports.https == 0
    status, body = await nsqd.get("/config/tls_required")
    assert (status, json.loads(body)["https_port"]) == (403, 0)


async def test_without_a_certificate_there_is_no_https(start: Start) -> None:
    nsqd = await start(https_address="127.0.0.1:0")
    assert nsqd.nsqd.ports.https == 0
    assert nsqd.nsqd.context.tls is None


@pytest.mark.parametrize("missing", ["tls_cert", "tls_key", "tls_root_ca_file"])
async def test_a_missing_file_is_named(
    missing: str, start: Start, certificates: Certificates, tmp_path: Path
) -> None:
    given = {**files(certificates), missing: "/no/such/file"}
    text = (
        "failed to instantiate nsqd - failed to build TLS config - "
        "open /no/such/file: no such file or directory"
    )
    with pytest.raises(PenstockError) as found:
        await start(https_address="127.0.0.1:0", **given)
    assert str(found.value) == text


async def test_a_certificate_needs_its_key(start: Start, certificates: Certificates) -> None:
    cert, key = str(certificates.cert), str(certificates.key)
    lacks_key = ({"tls_cert": cert}, "--tls-key is missing beside --tls-cert")
    lacks_cert = ({"tls_key": key}, "--tls-cert is missing beside --tls-key")
    for given, missing in (lacks_key, lacks_cert):
        with pytest.raises(PenstockError) as found:
            await start(https_address="", **given)
        assert str(found.value).endswith(f"open : no such file or directory: {missing}")
