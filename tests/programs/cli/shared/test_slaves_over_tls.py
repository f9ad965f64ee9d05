"""A master and its slave that copy over TLS, and those who ask there without a certificate."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.promote import run_promote
from penstock.cluster.access import Access
from penstock.core.errors import PenstockError
from penstock.testing.daemons import MqBroker, run_mqbroker
from tests.copies import until
from tests.rocketmq_pair import brokers, running_pair, wait
from tests.unit.net.certificates import Certificates
from tools.harness.ports import unused_address

SECONDS = 60


def properties(certificates: Certificates, **more: Any) -> dict[str, Any]:
    return {
        "tls.server.certPath": certificates.cert, "tls.server.keyPath": certificates.key,
        "tls.ha.enable": "true", "tls.ha.trustCertPath": certificates.ca,
        "tls.ha.need.client.auth": "require", **more,
    }  # fmt: skip


def answer(broker: MqBroker, context: ssl.SSLContext) -> bytes:
    """The first line of what the port for slaves answers. Raises OSError."""
    host, _, port = broker.copies.rpartition(":")
    with (
        socket.create_connection((host, int(port)), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(b"GET /replication HTTP/1.0\r\n\r\n")
        return secure.recv(1 << 16).split(b"\r\n")[0]


def test_a_pair_copies_and_changes_over_by_certificates(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    access = Access(tls=True, root_ca_file=certificates.ca, cert=certificates.cert,
                    key=certificates.key)  # fmt: skip
    with running_pair(**properties(certificates)) as pair:
        assert answer(pair.old, certificates.context("known")).endswith(b"200 OK")
        for client in ("", "unknown"):
            with pytest.raises(OSError, match=r"certificate|alert|EOF|reset"):
                answer(pair.old, certificates.context(client))
        with pytest.raises(PenstockError):
            run_promote(pair.new.copies, Access())
        run_promote(f"https://{pair.new.copies}", access)
        until(pair.new, role="primary", epoch=2)
        fenced = until(pair.old, role="fenced", fenced_epoch=2)
        assert fenced["primary"] == f"https://{pair.new.copies}"
        pair.old.properties.update(brokerRole="SLAVE", brokerId=1)
        pair.old.restart()
        until(pair.old, role="follower", whole=True, epoch=2)
        wait(lambda: brokers(pair.name_server, "TBW102") == {
            "0": pair.new.rocketmq, "1": pair.old.rocketmq}, pair.old)  # fmt: skip


def test_a_slave_copies_from_nobody_whom_it_cannot_verify(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    ours, others = Certificates(tmp_path), Certificates(tmp_path / "others")
    with run_mqbroker(**properties(others)) as false_master:
        slave = properties(ours, brokerRole="SLAVE", brokerId=1,
                           haMasterAddress=false_master.copies)  # fmt: skip
        with run_mqbroker(**slave) as broker:
            broker.wait_for("cannot follow https://" + false_master.copies)
            assert "certificate verify failed" in broker.log()


def test_files_that_cannot_be_read_are_named_at_the_start(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    missing = properties(certificates, **{"tls.ha.trustCertPath": tmp_path / "no.pem"})
    with (
        pytest.raises(AssertionError, match=r"the broker cannot start - .*no\.pem"),
        run_mqbroker(name_server=unused_address(), **missing),
    ):
        raise AssertionError("it has started")
