"""Real name servers and brokers whose configuration a stranger changes by command.

A value must never become another property, not even after a restart, nor a line of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.settings import java_properties
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.testing.daemons import MqBroker, MqNamesrv, RocketDaemon, run_mqbroker, run_mqnamesrv
from tools.harness.rocketmq.raw_client import RawClient

# What str.splitlines takes for the end of a line, as it stands and as a properties file writes it.
SEPARATORS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
# 0 in the first process, in the next what it got.
PORTS = {"listenPort", "nsqTcpAddress", "nsqHttpAddress"}
FORMS = [f"\\u{ord(char):04x}" for char in SEPARATORS] + ["\\n", "\\r", *SEPARATORS]


@pytest.fixture
def name_server() -> Iterator[MqNamesrv]:
    with run_mqnamesrv() as daemon:
        yield daemon


@pytest.fixture
def broker() -> Iterator[MqBroker]:
    with run_mqbroker() as daemon:
        yield daemon


def restart(daemon: RocketDaemon, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart with the configuration file that the commands have written."""
    daemon.stop()
    monkeypatch.setattr(daemon, "command", lambda: command)
    daemon.start()


def change(daemon: RocketDaemon, code: Q, text: str) -> None:
    client = RawClient(daemon.port)
    answer = client.ask(code, text.encode())
    assert answer.code == 0, answer.remark
    client.close()


def config(daemon: RocketDaemon, code: Q) -> dict[str, str]:
    client = RawClient(daemon.port)
    found = java_properties.loads(bytes(client.ask(code).body).decode())
    client.close()
    return {name: value for name, value in found.items() if name not in PORTS}


def test_a_value_moves_no_file_of_a_name_server(
    name_server: MqNamesrv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A restart would turn the values into properties, and the next command write to their path."""
    command = name_server.command()  # writes the file that the server is started with
    before = config(name_server, Q.GET_NAMESRV_CONFIG)
    moved = tmp_path / "moved.json"
    for number, form in enumerate(FORMS):
        value = f"x{form}kvConfigPath={moved}"
        change(name_server, Q.UPDATE_NAMESRV_CONFIG, f"productEnvName={value}")
        told = config(name_server, Q.GET_NAMESRV_CONFIG)
        assert told.pop("productEnvName") == java_properties.loads(f"a={value}")["a"]
        assert told.items() <= before.items()
        if number % 6 == 0:  # a restart for some: each takes a while
            restart(name_server, command, monkeypatch)
            client = RawClient(name_server.port)
            assert client.ask(Q.PUT_KV_CONFIG, namespace="n", key="k", value="v").code == 0
            client.close()
            assert not moved.exists()
    assert Path(before["kvConfigPath"]).exists()


@pytest.mark.parametrize("form", ["\\u000b", "\u2028"], ids=ascii)
def test_a_value_moves_no_store_and_switches_no_rules(
    broker: MqBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    broker.properties["aclEnable"] = "false"
    command = broker.command()
    value = f"x{form}storePathRootDir={tmp_path / 'moved'}{form}aclEnable=true"
    change(broker, Q.UPDATE_BROKER_CONFIG, f"regionId={value}")
    before = config(broker, Q.GET_BROKER_CONFIG)
    restart(broker, command, monkeypatch)
    assert config(broker, Q.GET_BROKER_CONFIG) == before
    assert not (tmp_path / "moved").exists()


def test_strangers_write_no_line_of_the_log(name_server: MqNamesrv) -> None:
    fake = "[mqnamesrv] 2026/01/31 12:30:45.123456 INFO: all is well"
    change(name_server, Q.UPDATE_NAMESRV_CONFIG, f"productEnvName=x\\n{fake}\\r{fake}\\u001b[2J")
    change(name_server, Q.UPDATE_NAMESRV_CONFIG, f"un\\u2028{fake.replace(' ', '_')}=1")
    log = name_server.log()
    assert "all is well" in log
    assert not re.search(r"^\[mqnamesrv\] 2026/01/31", "\n".join(log.splitlines()), re.MULTILINE)
    assert "\x1b" not in log
