"""TLS and its errors, over a real nsqd with generated certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.net.tls import renewal
from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.lookup import lookup
from penstock.spark.access import close_connections
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.read.batch import BatchReader
from penstock.spark.source_settings import SourceSettings
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tools.harness.certificates import Certificates


class Site(NamedTuple):
    """Running daemons."""

    nsqd: Daemon
    lookupd: Daemon


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(files: Certificates) -> Iterator[Site]:
    """An nsqd that takes nothing but TLS, from known clients only."""
    flags = [*files.flags(), "--tls-client-auth-policy=require-verify",
             f"--tls-root-ca-file={files.ca}", "--broadcast-address=127.0.0.1"]  # fmt: skip
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(*flags, f"--lookupd-tcp-address={lookupd.tcp}") as nsqd,
    ):
        config = Config(tls_v1=True, tls_config=files.context("client"))
        with Producer(nsqd.tcp, config=config) as producer:
            for _ in range(10):
                producer.publish("t", b"x")
        wait_until(lambda: bool(lookup([lookupd.http], "t", 60.0)), nsqd.log)
        yield Site(nsqd, lookupd)


@pytest.fixture(autouse=True)
def connections_closed() -> Iterator[None]:
    yield
    close_connections()


def options(secured: Site, files: Certificates, **more: str) -> dict[str, str]:
    return {
        "topic": "t", "nsqd_http_address": secured.nsqd.http, "timeout": "60",
        "tls_root_ca_file": str(files.ca), "tls_cert": str(files.ca.with_name("client.pem")),
        **more,
    }  # fmt: skip


def rows(given: dict[str, str]) -> int:
    reader = BatchReader(SourceSettings.parse(given), ("offset",))
    return sum(batch.num_rows for each in reader.partitions() for batch in reader.read(each))


def test_each_way_to_a_node(secured: Site, files: Certificates) -> None:
    given = options(secured, files)
    assert rows(given) == 10, "at the port that the node tells"
    assert rows({**given, "nsqd_http_address": f"https://{secured.nsqd.https}"}) == 10
    del given["nsqd_http_address"]
    for topic in ("t", "*"):
        assert rows({**given, "topic": topic, "lookupd_http_address": secured.lookupd.http}) == 10


def test_a_commit(secured: Site, files: Certificates) -> None:
    cluster = Cluster(SourceSettings.parse(options(secured, files)))
    bounds = cluster.bounds()
    cluster.commit({place: bound.end for place, bound in bounds.items()}, "g", "me")
    cluster.give_up(bounds, "g")


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(SourceError) as refused:
        Cluster(SourceSettings.parse(given)).bounds()
    return str(refused.value)


def test_plain_http_is_refused_with_the_remedy(secured: Site) -> None:
    assert refusal({"topic": "t", "nsqd_http_address": secured.nsqd.http}) == (
        f"node {secured.nsqd.http} takes no plain HTTP (--tls-required): set tls_v1=true, and "
        "tls_root_ca_file if no authority of the system has signed its certificate"
    )


def test_a_node_of_an_unknown_authority(secured: Site, files: Certificates) -> None:
    given = options(secured, files, tls_v1="true")
    del given["tls_root_ca_file"]
    assert refusal(given) == (
        f"node {secured.nsqd.http} cannot be reached for topic t: tls: failed to verify "
        "certificate: x509: certificate signed by unknown authority; options tls_root_ca_file and "
        "tls_server_name say whom to trust"
    )
    given["tls_insecure_skip_verify"] = "true"
    assert rows(given) == 10


def test_the_name_in_the_certificate(secured: Site, files: Certificates) -> None:
    assert rows(options(secured, files, tls_server_name="localhost")) == 10
    wrong = options(secured, files, tls_server_name="example.org")
    assert "Hostname mismatch, certificate is not valid for 'example.org'" in refusal(wrong)


def test_a_node_that_wants_a_certificate(secured: Site, files: Certificates) -> None:
    given = options(secured, files)
    del given["tls_cert"]
    assert refusal(given).endswith("certificate required; options tls_cert and tls_key present one")


def test_a_renewed_certificate_is_shown(
    secured: Site, files: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query may go on for longer than its certificate."""
    monkeypatch.setattr(renewal, "LOOK_NS", 0)
    used = tmp_path / "client.pem"
    used.write_bytes(files.ca.with_name("self.pem").read_bytes())
    given = options(secured, files, tls_cert=str(used))
    assert "unknown certificate authority" in refusal(given)
    used.write_bytes(files.ca.with_name("client.pem").read_bytes())
    assert rows(given) == 10


def test_a_file_that_is_not_there(secured: Site, files: Certificates, tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    with pytest.raises(OptionError) as refused:
        Cluster(
            SourceSettings.parse(options(secured, files, tls_root_ca_file=str(missing)))
        ).bounds()
    assert str(refused.value) == (
        f"TLS of format nsq: open {missing}: no such file or directory (on this machine)"
    )


def test_the_usual_port_of_a_node_that_takes_plain_http_too(files: Certificates) -> None:
    with run_nsqd(*files.flags()) as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.publish("t", b"x")
        given = {"topic": "t", "nsqd_http_address": nsqd.http, "timeout": "60",
                 "tls_root_ca_file": str(files.ca)}  # fmt: skip
        assert rows({**given, "nsqd_https_port": str(nsqd.https_port)}) == 1
