"""Commands that read nodes over TLS, with a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.cli.shared.asking import Asking, Nodes, flags_of
from penstock.cli.shared.nodes import Where
from penstock.cluster.access import Access
from penstock.core.errors import ConfigError
from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.lookup import lookup
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import Commands
from tools.harness.certificates import Certificates


class Site(NamedTuple):
    """An nsqd that takes nothing but TLS, from known clients only, and who knows it."""

    nsqd: Daemon
    lookupd: Daemon
    files: Certificates

    @property
    def flags(self) -> list[str]:
        certificate = str(self.files.ca).replace("ca.pem", "client.pem")
        return [f"--tls-root-ca-file={self.files.ca}", f"--tls-cert={certificate}"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = Certificates(tmp_path_factory.mktemp("certificates"))
    flags = [*files.flags(), "--tls-client-auth-policy=require-verify",
             f"--tls-root-ca-file={files.ca}", "--broadcast-address=127.0.0.1"]  # fmt: skip
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(*flags, f"--lookupd-tcp-address={lookupd.tcp}") as nsqd,
    ):
        config = Config(tls_v1=True, tls_config=files.context("client"))
        with Producer(nsqd.tcp, config=config) as producer:
            producer.publish("orders.dead", b'{"id":1}')
        yield Site(nsqd, lookupd, files)


def test_where_a_command_reads() -> None:
    nodes = Nodes(nsqd_http_address=("https://h:1",), lookupd_http_address=("l:1",))
    assert nodes.where(None) == Where(("https://h:1",), ("l:1",), Access(tls=True))
    asking = Asking(auth_secret="s")
    assert Nodes().where(asking) == Where((), (), Access(auth_secret="s"))


def test_the_flags_and_the_way_to_ask() -> None:
    assert Asking().access(["h:1"]) == Access()
    assert Asking().access(["https://h:1"]) == Access(tls=True)
    assert Asking(tls_v1=True).access() == Access(tls=True)
    given = Asking(
        tls_root_ca_file=Path("ca.pem"), tls_cert=Path("c.pem"), tls_key=Path("k.pem"),
        tls_server_name="n", tls_insecure_skip_verify=True, auth_secret="s3cret",
    ).access()  # fmt: skip
    assert given == Access(tls=True, root_ca_file="ca.pem", cert="c.pem", key="k.pem",
                           server_name="n", verify=False, auth_secret="s3cret")  # fmt: skip
    assert flags_of(given) == [
        "--tls-root-ca-file", "ca.pem", "--tls-cert", "c.pem", "--tls-key", "k.pem",
        "--tls-server-name", "n", "--tls-insecure-skip-verify", "--auth-secret", "...",
    ]  # fmt: skip
    assert flags_of(Access(tls=True)) == ["--tls-v1"]
    assert flags_of(Access()) == []
    with pytest.raises(ConfigError, match="--tls-key is of no use without --tls-cert"):
        Asking(tls_key=Path("k.pem")).access()


@pytest.mark.parametrize("address", ["{nsqd.http}", "https://{nsqd.https}"])
def test_replay_over_tls(site: Site, command: Commands, address: str) -> None:
    node = f"--nsqd-http-address={address.format(nsqd=site.nsqd)}"
    ended = command("replay", "orders.dead", node, *site.flags)
    assert (ended.code, ended.out) == (0, '{"id":1}\n'), ended.err


def test_dead_letters_over_tls(site: Site, command: Commands) -> None:
    wait_until(lambda: bool(lookup([site.lookupd.http], "orders.dead", 60.0)), site.nsqd.log)
    ended = command("dlq", "list", f"--lookupd-http-address={site.lookupd.http}", "--json",
                    *site.flags)  # fmt: skip
    assert json.loads(ended.out)["letters"] == 1, ended.err
    node = f"--nsqd-http-address={site.nsqd.http}"
    ended = command("dlq", "show", "orders.dead", node, *site.flags)
    assert '| {"id":1}' in ended.out, ended.err


def test_copies_and_resends_go_over_tls_as_well(site: Site, command: Commands) -> None:
    node = f"--nsqd-http-address={site.nsqd.http}"
    ended = command("replay", "orders.dead", "--to=copy", node, *site.flags)
    assert "published 1 message," in ended.err
    ended = command("dlq", "resend", "copy", "--all", "--to=again", node, *site.flags)
    assert "sent 1 to topic again" in ended.out, ended.err
    assert command("replay", "again", node, *site.flags).out == '{"id":1}\n'


def test_top_over_tls(site: Site, command: Commands) -> None:
    node = f"--nsqd-http-address={site.nsqd.http}"
    ended = command("top", "--json", "--interval=10ms", node, *site.flags)
    found = {topic["name"]: topic["messages"] for topic in json.loads(ended.out)["topics"]}
    assert found["orders.dead"] == 1


@pytest.mark.parametrize("name", ["replay", "dlq", "top"])
def test_strangers_are_told_what_helps(site: Site, command: Commands, name: str) -> None:
    arguments = {"dlq": ["show", "orders.dead"], "replay": ["orders.dead"], "top": ["--once"]}
    node = f"--nsqd-http-address={site.nsqd.http}"
    ended = command(name, *arguments[name], node)
    assert ended.code == 1
    assert "tls: failed to verify certificate" in ended.err
    if name != "top":
        assert ended.err.endswith("--tls-root-ca-file and --tls-server-name say whom to trust\n")
    assert ended.err.count("\n") == 1
