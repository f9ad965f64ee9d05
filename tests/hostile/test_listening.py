"""docs/security.md names every address that a program listens on, and the flag that closes it."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.admin.options import AdminOptions
from penstock.core.settings.options import Options
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqlookupd.options import LookupdOptions
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.namesrv.settings import NamesrvSettings

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
ROW = re.compile(r"\| `(\w+)` \| (.*?) \| .* \| (.*?) \|")
PROGRAMS: dict[str, type[Options]] = {
    "nsqd": NsqdOptions, "nsqlookupd": LookupdOptions, "nsqadmin": AdminOptions,
}  # fmt: skip


def told() -> dict[tuple[str, str], str]:
    """The flag that closes each address of a program, according to the page."""
    section = PAGE.read_text().partition("\n## ")[2].partition("\n## ")[0]
    return {
        (program, address): remedy
        for program, addresses, remedy in ROW.findall(section)
        for address in re.findall(r"`([^`]*)`", addresses)
    }


def test_the_page_names_each_default_address_and_its_flag() -> None:
    expected = {}
    for program, options in PROGRAMS.items():
        for each in options.declared.values():
            default = each.initial()
            if isinstance(default, str) and re.fullmatch(r"[\d.]+:\d+", default):
                expected[program, default] = f"--{each.flag}=127.0.0.1:{default.partition(':')[2]}"
    for program, settings, ports in (
        ("mqnamesrv", NamesrvSettings(), [0]),
        ("mqbroker", BrokerSettings(), [0, -2, 1]),  # for clients, for those in a hurry, for slaves
    ):
        for port in ports:
            address = f"{settings.bind_address}:{settings.listen_port + port}"
            expected[program, address] = "bindAddress=127.0.0.1"
    assert told().keys() == expected.keys()
    for key, flag in expected.items():
        assert f"`{flag}`" in told()[key]
