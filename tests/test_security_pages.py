"""Each flag, property, option and port that the pages on security name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.admin.admin_options import AdminOptions
from penstock.cli.flags.programs import programs
from penstock.nsq.client import Config as NsqConfig
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.client import Config as RocketmqConfig
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from tools.pages.documentation import DOCS, ROOT

GUARDS = DOCS / "security.md"
PAGES = [ROOT / "SECURITY.md", GUARDS]
_FLAG = re.compile(r"`(?:\w+ )?(--[a-z][a-z0-9-]+)")
_PROPERTY = re.compile(r"`((?:tls\.[\w.]+|[a-z]+[A-Z]\w+))(?:=|`)")
_OPTION = re.compile(r"`(tls_\w+|auth_secret)\b")
# Names of Java's, of files of access rules and of other programs, which no program of ours has.
_OTHERS = {
    "permissions", "globalWhiteRemoteAddresses", "whiteRemoteAddress", "groupPerms",
    "defaultTopicPerm", "defaultGroupPerm", "dependsOn",
}  # fmt: skip
_PENSTOCK = {"--version", "--config"}


def words(page: Path, pattern: re.Pattern[str]) -> set[str]:
    text = page.read_text(encoding="utf-8").partition("## What each RocketMQ request needs")[0]
    return set(pattern.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_flags_exist(page: Path) -> None:
    known = {flag.name for flags in programs().values() for flag in flags} | _PENSTOCK
    found = words(page, _FLAG)
    assert len(found) > (15 if page == GUARDS else 0)
    assert found <= known


def test_properties_of_rocketmqs_programs_exist() -> None:
    known = {*BrokerSettings.declared(), *NamesrvSettings.declared()}
    found = words(GUARDS, _PROPERTY) - _OTHERS
    assert len(found) > 5
    assert found <= known


def test_options_of_the_clients_exist() -> None:
    known = {*NsqConfig.__annotations__, *RocketmqConfig.__annotations__, "tls_version"}
    found = words(GUARDS, _OPTION)
    assert len(found) > 3
    assert found <= known


def test_the_ports_that_are_open_without_flags_are_listed() -> None:
    listed = set(re.findall(r"`0\.0\.0\.0:(\d+)`", GUARDS.read_text(encoding="utf-8")))
    options = (NsqdOptions(), LookupdOptions(), AdminOptions())
    of_nsq = [
        getattr(each, name).removeprefix("0.0.0.0:")
        for each in options
        for name in ("tcp_address", "http_address", "https_address")
        if hasattr(each, name)
    ]
    broker, names = BrokerSettings().listen_port, NamesrvSettings().listen_port
    assert listed == {*of_nsq, str(names), str(broker), str(broker - 2), str(broker + 1)}
    guarded = GUARDS.read_text(encoding="utf-8").partition("## What guards each port")[2]
    numbers = re.findall(r"\b(?:4\d{3}|9876|109\d\d)\b", guarded.partition("\n## ")[0])
    assert set(numbers) == listed, "the table of guards has the same ports"
