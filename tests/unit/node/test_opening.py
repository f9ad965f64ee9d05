"""Opening a data path for the daemons over it."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from penstock.core.errors import ConfigError, LaterFormatError, PenstockError
from penstock.net.loop import StopRequested
from penstock.node.opening import open_node
from penstock.node.options import NodeOptions
from penstock.nsq.protocol.letters import Letters
from penstock.storage.store import Store


def as_it_is(store: Store) -> None:
    """Prepare nothing."""


async def test_names_of_other_dialects_stay_out_of_nsqs_file(tmp_path: Path) -> None:
    node = await open_node(NodeOptions(data_path=str(tmp_path)), as_it_is, Letters)
    node.registry.topic("%RETRY%g")
    node.registry.topic("t")
    await node.close()
    text = (tmp_path / "nsqd.dat").read_text()
    assert '"t"' in text
    assert "RETRY" not in text


async def test_a_file_that_is_none_lets_go_of_the_data_path(tmp_path: Path) -> None:
    options = NodeOptions(data_path=str(tmp_path))
    (tmp_path / "nsqd.dat").write_text("{")
    with pytest.raises(PenstockError, match=r"^failed to load metadata - ") as refused:
        await open_node(options, as_it_is, Letters)
    assert not isinstance(refused.value, ConfigError)  # its text needs no words before it
    (tmp_path / "nsqd.dat").unlink()
    await (await open_node(options, as_it_is, Letters)).close()


async def test_a_store_that_is_refused_is_let_go(tmp_path: Path) -> None:
    def refuse(store: Store) -> NoReturn:
        raise ConfigError("not this one")

    options = NodeOptions(data_path=str(tmp_path))
    with pytest.raises(ConfigError, match="not this one"):
        await open_node(options, refuse, Letters)
    assert not (tmp_path / "nsqd.dat").exists()
    await (await open_node(options, as_it_is, Letters)).close()


async def test_a_data_path_in_use_is_named(tmp_path: Path) -> None:
    options = NodeOptions(data_path=str(tmp_path))
    node = await open_node(options, as_it_is, Letters)
    with pytest.raises(ConfigError, match=r"^failed to lock data-path: "):
        await open_node(options, as_it_is, Letters)
    await node.close()


@pytest.mark.parametrize("reason", [LaterFormatError("version 9"), StopRequested()])
async def test_a_start_that_ends_early_lets_go_of_the_data_path(
    tmp_path: Path, reason: Exception
) -> None:
    def end(store: Store) -> NoReturn:
        raise reason

    options = NodeOptions(data_path=str(tmp_path))
    with pytest.raises(type(reason)):
        await open_node(options, end, Letters)
    await (await open_node(options, as_it_is, Letters)).close()


async def test_a_data_path_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text('{"version": 9}')
    with pytest.raises(LaterFormatError):
        await open_node(NodeOptions(data_path=str(tmp_path)), as_it_is, Letters)
    assert not (tmp_path / "nsqd.dat").exists()
