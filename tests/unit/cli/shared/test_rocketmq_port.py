"""RocketMQ's port of a protected nsqd, and NSQ's ports of a protected mqbroker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.shared.rocketmq_port import check_open_doors, rocketmq_settings
from penstock.core.errors import ConfigError
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.rocketmq.broker.settings import BrokerSettings

TLS = {"tls.server.mode": "enforcing", "tls.server.certPath": "c", "tls.server.keyPath": "k"}
ANY_CERTIFICATE = {**TLS, "tls.server.need.client.auth": "require"}
KNOWN_CERTIFICATE = {**ANY_CERTIFICATE, "tls.server.authClient": "true"}
ACL = {"aclEnable": "true"}
REQUIRED: dict[str, Any] = {"tls_required": TlsRequired.YES}
REQUIRE: dict[str, Any] = {"tls_client_auth_policy": "require"}
VERIFY: dict[str, Any] = {"tls_client_auth_policy": "require-verify"}
AUTH: dict[str, Any] = {"auth_http_addresses": ("127.0.0.1:1",)}


def problem(flags: dict[str, Any], properties: dict[str, str]) -> str | None:
    settings = BrokerSettings()
    settings.update(properties)
    try:
        check_open_doors(NsqdOptions(rocketmq_address=":10911", **flags), settings)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("flags", "properties"),
    [
        ({}, {}),
        ({}, ACL),
        (REQUIRED, TLS),
        ({"tls_required": TlsRequired.EXCEPT_HTTP}, TLS),
        (REQUIRE, ANY_CERTIFICATE),
        (VERIFY, KNOWN_CERTIFICATE),
        (VERIFY, {**TLS, **ACL}),
        (AUTH, ACL),
        ({**REQUIRED, **AUTH}, {**TLS, **ACL}),
        ({**VERIFY, **REQUIRED, **AUTH, "rocketmq_open": True}, {}),
    ],
)
def test_doors_that_are_closed_alike(flags: dict[str, Any], properties: dict[str, str]) -> None:
    assert problem(flags, properties) is None


@pytest.mark.parametrize(
    ("flags", "properties", "words"),
    [
        (REQUIRED, {}, "--tls-required closes: set tls.server.mode=enforcing"),
        (REQUIRED, ACL, "--tls-required closes: set tls.server.mode=enforcing"),
        (REQUIRED, {**TLS, "tls.server.mode": "permissive"}, "--tls-required closes"),
        (REQUIRE, {}, "--tls-client-auth-policy, --tls-client-auth-policy=require closes"),
        (REQUIRE, TLS, "=require closes: set tls.server.need.client.auth=require, or aclEnable"),
        (VERIFY, ANY_CERTIFICATE, "require and tls.server.authClient=true, or aclEnable=true in"),
        (VERIFY, ACL, "--tls-client-auth-policy closes: set tls.server.mode=enforcing in the"),
        (AUTH, TLS, "--auth-http-address closes: set aclEnable=true in the file of "
         "--rocketmq-config, or use --rocketmq-open"),
    ],
)  # fmt: skip
def test_a_door_that_is_open(flags: dict[str, Any], properties: dict[str, str], words: str) -> None:
    found = problem(flags, properties)
    assert found is not None
    assert found.startswith("--rocketmq-address=:10911 opens to everybody what ")
    assert words in found


@pytest.mark.parametrize("closing", [ACL, TLS])
@pytest.mark.parametrize("name", ["nsqTcpAddress", "nsqHttpAddress"])
def test_a_broker_opens_no_port_of_nsqs_beside_a_closed_one(
    closing: dict[str, str], name: str
) -> None:
    settings = BrokerSettings()
    settings.update({**closing, name: "127.0.0.1:0"})
    with pytest.raises(ConfigError, match=r"nsqHttpAddress open to everybody what .* nsqOpen=true"):
        settings.check()
    settings.update({"nsqOpen": "true"})
    settings.check()
    settings.update({"nsqOpen": "false", name: ""})
    settings.check()


def test_a_sync_master_s_word_is_not_nsqd_s(tmp_path: Path) -> None:
    """NSQ's publishes would not wait for the slave; --replicas-acked is for both."""
    config = tmp_path / "rocketmq.properties"
    config.write_text("brokerRole=SYNC_MASTER\n")
    options = NsqdOptions(rocketmq_address=":10911", rocketmq_config=str(config), replicas_acked=1)
    options.check()
    with pytest.raises(ConfigError, match="brokerRole=SYNC_MASTER is for mqbroker; with nsqd's"):
        rocketmq_settings(options)
    config.write_text("brokerRole=ASYNC_MASTER\n")
    assert not rocketmq_settings(options).is_sync_master
