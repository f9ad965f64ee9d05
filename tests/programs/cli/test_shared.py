"""What commands share at running nodes: which are meant, TLS and secrets towards them, pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.cli.shared.client_options import client_config, without_secret
from penstock.cli.shared.connection_flags import ConnectionFlags, NodeFlags, flags_of
from penstock.cli.shared.node_selection import (
    DEFAULT_NODE,
    NodeAddress,
    NodeSelection,
    places,
    tcp_address,
)
from penstock.cluster.access import Access
from penstock.core.errors import ConfigError, PenstockError
from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.lookup import lookup
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import Commands, ask, make, publish
from tools.harness.auth_server import run_auth_server
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
    nodes = NodeFlags(nsqd_http_address=("https://h:1",), lookupd_http_address=("l:1",))
    assert nodes.where(None) == NodeSelection(("https://h:1",), ("l:1",), Access(tls=True))
    asking = ConnectionFlags(auth_secret="s")
    assert NodeFlags().where(asking) == NodeSelection((), (), Access(auth_secret="s"))


def test_the_flags_and_the_way_to_ask() -> None:
    assert ConnectionFlags().access(["h:1"]) == Access()
    assert ConnectionFlags().access(["https://h:1"]) == Access(tls=True)
    assert ConnectionFlags(tls_v1=True).access() == Access(tls=True)
    given = ConnectionFlags(
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
        ConnectionFlags(tls_key=Path("k.pem")).access()


def test_every_command_goes_over_tls(site: Site, command: Commands) -> None:
    node = f"--nsqd-http-address={site.nsqd.http}"
    for address in (node, f"--nsqd-http-address=https://{site.nsqd.https}"):
        ended = command("replay", "orders.dead", address, *site.flags)
        assert (ended.code, ended.out) == (0, '{"id":1}\n'), ended.err
    wait_until(lambda: bool(lookup([site.lookupd.http], "orders.dead", 60.0)), site.nsqd.log)
    lookupd = f"--lookupd-http-address={site.lookupd.http}"
    ended = command("dlq", "list", lookupd, "--json", *site.flags)
    assert json.loads(ended.out)["letters"] == 1, ended.err
    ended = command("dlq", "show", "orders.dead", node, *site.flags)
    assert '| {"id":1}' in ended.out, ended.err
    ended = command("replay", "orders.dead", "--to=copy", node, *site.flags)
    assert "published 1 message," in ended.err
    ended = command("dlq", "resend", "copy", "--all", "--to=again", node, *site.flags)
    assert "sent 1 to topic again" in ended.out, ended.err
    assert command("replay", "again", node, *site.flags).out == '{"id":1}\n'
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


OPTIONS = ("--client-opt=tls_v1", "--client-opt=auth_secret,good")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A node that speaks NSQ's protocol over TLS and with AUTH only; this system trusts it."""
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with run_auth_server() as auth:
        auth.allow("good", topic=".*")
        flags = (*certificates.flags(), "--tls-required=tcp-https")
        with run_nsqd(f"--auth-http-address={auth.address}", *flags) as node:
            for number in range(3):
                ask(node, "POST", "/pub?topic=orders.dead", b"%d" % number)
            yield node


@pytest.mark.parametrize(
    "words", [("replay", "orders.dead"), ("dlq", "resend", "orders.dead", "--all")]
)
def test_a_guarded_node(words: tuple[str, ...], guarded: Daemon, command: Commands) -> None:
    where = (f"--nsqd-http-address={guarded.http}", "--to=orders")
    refused = command(*words, *where, OPTIONS[0])
    assert refused.code == 1
    assert "Auth Required" in refused.err, refused.err
    assert refused.err.count("\n") == 1
    done = command(*words, *where, *OPTIONS)
    assert done.code == 0, done.err
    (topic,) = [
        each
        for each in ask(guarded, "GET", "/stats?format=json")["topics"]
        if each["topic_name"] == "orders"
    ]
    assert topic["message_count"] == 3


def test_options_by_name() -> None:
    config = client_config(["tls_v1", "auth-secret,a,b", "dial_timeout,3s"], Config(max_attempts=0))
    assert (config.tls_v1, config.auth_secret, config.dial_timeout) == (True, "a,b", 3.0)
    assert config.max_attempts == 0
    assert client_config(()) == Config()
    assert without_secret("auth-secret,hush") == "auth-secret,..."
    assert without_secret("tls_v1,true") == "tls_v1,true"


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("nosuch,1", "--client-opt nosuch,1: invalid option nosuch"),
        ("dial_timeout,x", "--client-opt dial_timeout,x: failed to coerce option dial_timeout (x)"),
        ("heartbeat_interval,90s", "--client-opt heartbeat_interval,90s: HeartbeatInterval 1m30s"),
    ],
)
def test_wrong_options(pair: str, said: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        client_config([pair])
    assert str(wrong.value).startswith(said)


PROGRAM = """
import sys
from penstock.broker import dialects
from penstock.cli.shared.dialects import register_dialects
from penstock.storage.batch import Batch

register_dialects()
loaded = lambda: {n.split(".")[1] for n in sys.modules if n.startswith("penstock.")}
print(sorted(loaded() & {"nsq", "rocketmq"}))
batch = Batch.build(0, 1, 5, 1, 5, [b"hello"], dialect=int(sys.argv[1]))
print(dialects.bodies(batch, 0, 1), sorted(loaded() & {"nsq", "rocketmq"}))
print(bytes(dialects.nsq_view(batch).frames), sorted(loaded() & {"nsq", "rocketmq"}))
"""


@pytest.mark.parametrize(
    ("dialect", "lines"),
    [
        ("0", ["[b''] ['nsq']", "b'hello' ['nsq']"]),
        ("1", ["[b'hello'] ['rocketmq']",
               "b'\\x00\\x00\\x00#\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05"
               "\\x00\\x010000000000000001hello' ['nsq', 'rocketmq']"]),
    ],
)  # fmt: skip
def test_a_dialect_is_loaded_when_a_batch_needs_it(dialect: str, lines: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, dialect], capture_output=True, text=True,
                          timeout=60, check=True)  # fmt: skip
    assert done.stdout.splitlines() == ["[]", *lines]


async def found(nsqds: list[str], lookupds: list[str], topic: str = "") -> list[NodeAddress]:
    where = NodeSelection(nsqds, lookupds)
    async with where.http() as http:
        return await places(http, where, topic)


async def test_given_nodes_and_those_that_nsqlookupd_names() -> None:
    assert await found([], []) == [NodeAddress(DEFAULT_NODE)]
    with run_nsqlookupd() as lookupd, run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
        make(nsqd, "t")
        wait_until(lambda: ask(lookupd, "GET", "/topics")["topics"] == ["t"], nsqd.log)
        named = NodeAddress(nsqd.http, nsqd.tcp)
        given = NodeAddress("10.0.0.1:4151")
        assert await found([given.http], [lookupd.http], "t") == [given, named]
        assert await found([], [f"http://{lookupd.http}/", "127.0.0.1:1"]) == [named]
        assert await found([], [lookupd.http], "unknown") == []
        async with NodeSelection().http() as http:
            assert await tcp_address(http, NodeAddress(nsqd.http)) == nsqd.tcp
    for topic in ("", "t"):
        refused = r"^no nsqlookupd answers: 127\.0\.0\.1:1 cannot be reached: connection refused$"
        with pytest.raises(PenstockError, match=refused):
            await found([], ["127.0.0.1:1"], topic)


def test_no_command_tells_the_password_of_an_address(command: Commands) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t")
        make(nsqd, "t.dead")
        publish(nsqd, "t.dead", [b"letter"])
        for http in (nsqd.http, "127.0.0.1:1"):
            address = f"http://me:hush@{http}"
            where = f"--nsqd-http-address={address}"
            for words in (("top", "--once", "--interval=1ms"), ("top", "--json", "--interval=1ms"),
                          ("replay", "t"), ("replay", "t", "--queue=9"), ("dlq", "list"),
                          ("dlq", "show", "t.dead", "--json"), ("dlq", "export", "t.dead"),
                          ("dlq", "resend", "t.dead", "--all", "--dry-run"),
                          ("dlq", "show", "no.dead"), ("doctor",)):  # fmt: skip
                ended = command(*words, where)
                assert http in ended.out + ended.err, words
                assert "hush" not in ended.out + ended.err, words
            ended = command("promote", address)
            assert http in ended.out + ended.err
            assert "hush" not in ended.out + ended.err


PIPED = """
import sys
from penstock.cli.shared.pipes import quiet_pipe
with quiet_pipe():
    while True:
        print("x" * 1000)
"""


def test_the_end_of_a_pipe_is_quiet() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PIPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    with program.stdout, program.stderr:
        assert program.stdout.readline() == b"x" * 1000 + b"\n"
        program.stdout.close()
        assert program.wait(60) == 0
        assert program.stderr.read() == b""
