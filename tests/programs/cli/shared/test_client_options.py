"""The client's options on Penstock's own command lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.shared.client_options import client_config, without_secret
from penstock.core.errors import ConfigError
from penstock.nsq.client.config import Config
from penstock.testing.daemons import Daemon, run_nsqd
from tests.unit.cli.nodes_at_work import Commands, ask
from tools.harness.auth_server import run_auth_server
from tools.harness.certificates import Certificates

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


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


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


def test_a_secret_is_not_shown() -> None:
    assert without_secret("auth-secret,hush") == "auth-secret,..."
    assert without_secret("tls_v1,true") == "tls_v1,true"
