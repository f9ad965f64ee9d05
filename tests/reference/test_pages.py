"""The reference is what the programs declare, whole and up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.flags.programs import programs
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from tests.reference.parameters import read_by
from tools.pages.documentation import DOCS
from tools.reference import endpoints
from tools.reference.pages import FOLDER, files
from tools.reference.properties import documented

from . import routes

REFUSED = {"POST /log/offsets": {"topic"}}
"""Names that a handler looks for because they may not be there."""


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.name))
def test_a_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run `make pages`"


def test_there_is_no_other_page() -> None:
    assert set(FOLDER.iterdir()) == set(files())


def test_every_flag_of_every_program_is_there() -> None:
    text = "".join(files().values())
    missing = [
        each.shown
        for flags in programs().values()
        for each in flags
        if f"`{each.shown.replace('=', ' ')}`" not in text and f"`{each.shown}`" not in text
    ]
    assert missing == []


@pytest.mark.parametrize("settings", [BrokerSettings, NamesrvSettings])
def test_every_property_says_what_it_is_for(
    settings: type[BrokerSettings | NamesrvSettings],
) -> None:
    assert set(settings.declared().values()) <= documented(settings).keys()


async def test_every_endpoint_of_nsqd_is_there() -> None:
    assert sorted(await routes.of_nsqd()) == sorted(endpoints.DAEMONS["nsqd"])


def test_every_endpoint_of_nsqlookupd_is_there() -> None:
    assert sorted(routes.of_nsqlookupd()) == sorted(endpoints.DAEMONS["nsqlookupd"])


async def test_every_endpoint_of_nsqadmin_is_there() -> None:
    assert sorted(await routes.of_nsqadmin()) == sorted(endpoints.DAEMONS["nsqadmin"])


async def test_endpoints_take_what_their_handlers_read() -> None:
    daemons = {"nsqd": await routes.of_nsqd(), "nsqlookupd": routes.of_nsqlookupd(),
               "nsqadmin": await routes.of_nsqadmin()}  # fmt: skip
    for daemon, handlers in daemons.items():
        told = endpoints.parameters(endpoints.DAEMONS[daemon])
        read = {
            route: read_by(each) - REFUSED.get(route, set()) for route, each in handlers.items()
        }
        assert read == told, daemon


def test_every_endpoint_of_the_monitoring_port_is_there() -> None:
    assert sorted(routes.of_monitoring_port()) == sorted(endpoints.VITALS)


def test_the_first_page_lists_every_page() -> None:
    contents = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [
        each.name for each in FOLDER.iterdir() if f"reference/{each.name}" not in contents
    ] == []
