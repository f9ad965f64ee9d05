"""Whom a slave follows, and what is no role of a store: decided before any port is open."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cli.mqbroker import node_options
from penstock.cli.shared import broker_opening
from penstock.cli.shared.broker_opening import TRY_NS, Opening, prepare_store
from penstock.core.errors import ConfigError, PenstockError
from penstock.net import tcp
from penstock.node.options import NodeOptions
from penstock.replication.standby import Standby
from penstock.replication.standing import Role, Standing, write_standing
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.slaves import master_address
from penstock.storage.files.disk import OsDisk
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import broker_settings
from tools.harness.go_files import delivered, expected, messages, nsqd_dat, open_store, queue

OLD, OTHER, OWN = "10.0.0.1:10912", "10.0.0.2:10912", "10.0.0.3:10912"


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    found = broker_settings(tmp_path)
    found.broker_role, found.broker_id, found.namesrv_addr = "SLAVE", 1, "ns:1"
    return found


def opening(settings: BrokerSettings, turns: list[str], *, is_turn: bool = False) -> Opening:
    return Opening(settings, lambda follow: node_options(settings, 20, follow), AsyncExitStack(),
                   lambda: turns.append("turn"), is_turn=is_turn)  # fmt: skip


def knows(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let name servers know this master."""

    async def found(settings: BrokerSettings) -> str:
        return address

    monkeypatch.setattr(master_address, "master", found)
    monkeypatch.setattr(master_address, "wait_for_master", found)


def stands(settings: BrokerSettings, role: Role) -> None:
    standing = Standing("h", 1, role, OLD)
    write_standing(OsDisk(), settings.store_path_root_dir, standing)


@pytest.mark.parametrize(
    ("role", "known", "is_turn", "followed"),
    [
        (None, OTHER, False, OTHER),
        (Role.FOLLOWER, OTHER, False, OTHER),
        (Role.FOLLOWER, "", False, OLD),
        (Role.FENCED, OTHER, False, OTHER),
        (Role.PRIMARY, OTHER, True, OLD),  # it was promoted just now
    ],
)
async def test_a_slave_follows_the_master_that_name_servers_know_or_the_one_before(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch, role: Role | None, known: str,
    is_turn: bool, followed: str,
) -> None:  # fmt: skip
    knows(monkeypatch, known)
    if role is not None:
        stands(settings, role)
    assert await opening(settings, [], is_turn=is_turn)._followed() == followed
    settings.ha_master_address = OWN
    assert await opening(settings, [])._followed() == OWN


def test_no_master_opens_the_store_of_a_slave(settings: BrokerSettings) -> None:
    opening(settings, [])._check_standing()
    stands(settings, Role.FENCED)
    opening(settings, [])._check_standing()
    stands(settings, Role.FOLLOWER)
    with pytest.raises(PenstockError, match=f"of the broker at {OLD}: start it with brokerRole"):
        opening(settings, [])._check_standing()


@pytest.mark.parametrize(
    ("error", "told", "later_ns", "turns"),
    [
        ("gone", OTHER, TRY_NS, ["turn"]),
        ("gone", OTHER, 0, []),
        (None, OTHER, TRY_NS, []),
        ("gone", OLD, TRY_NS, []),
        ("gone", OWN, TRY_NS, []),
    ],
)
def test_a_master_that_is_elsewhere_is_followed_there_once_the_old_one_is_gone(
    settings: BrokerSettings, error: str | None, told: str, later_ns: int, turns: list[str]
) -> None:
    heard: list[str] = []
    opened = opening(settings, heard)
    clock = FakeClock()
    opened._opened_ns = clock.monotonic_ns()
    clock.advance(later_ns)
    standby: Any = SimpleNamespace(standing=Standing("h", 1, Role.FOLLOWER, OLD), clock=clock,
                                   pulling=SimpleNamespace(error=error), address=OWN)  # fmt: skip
    opened._told_master(cast(Standby, standby), told)
    assert heard == turns


def test_a_master_goes_on_without_a_port_for_slaves_that_is_taken(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(address: str) -> None:
        raise tcp.ListenError(f"listen ({address}) failed")

    monkeypatch.setattr(broker_opening, "check_free", taken)
    settings.broker_role, settings.listen_port = "ASYNC_MASTER", 7
    assert opening(settings, [])._replication_address() == ""
    settings.ha_listen_port = 9
    assert opening(settings, [])._replication_address() == "127.0.0.1:9"
    settings.acl_enable = True
    assert opening(settings, [])._replication_address() == ""


def test_what_a_go_nsqd_has_left_is_taken_over_without_nsqs_ports_too(tmp_path: Path) -> None:
    found = messages(range(3))
    for name, content in {**queue("t", found), **nsqd_dat({"t": []})}.items():
        (tmp_path / name).write_bytes(content)
    store = open_store(OsDisk(), str(tmp_path))
    prepare_store(NodeOptions(), store)
    store.close()
    assert delivered(OsDisk(), str(tmp_path)) == {"t": {"": expected(found)}}


def test_a_store_that_is_no_primarys_is_refused(tmp_path: Path) -> None:
    write_standing(OsDisk(), str(tmp_path), Standing("h", 1, Role.FENCED, OLD))
    store = open_store(OsDisk(), str(tmp_path))
    with pytest.raises(ConfigError, match="is that of a fenced node"):
        prepare_store(NodeOptions(), store)
    store.close()
