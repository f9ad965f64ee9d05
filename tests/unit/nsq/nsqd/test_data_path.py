"""Opening a data path for the daemons over it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError, PenstockError
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.options import NsqdOptions


def options(path: Path, **changes: object) -> NsqdOptions:
    return NsqdOptions(**{"data_path": str(path), "node_id": 7, **changes})


async def test_names_of_other_dialects_stay_out_of_nsqs_file(tmp_path: Path) -> None:
    node = await open_node(options(tmp_path))
    node.registry.topic("%RETRY%g")
    node.registry.topic("t")
    await node.close()
    text = (tmp_path / "nsqd.dat").read_text()
    assert '"t"' in text
    assert "RETRY" not in text


@pytest.mark.parametrize(
    "wrong",
    [{"node_id": -1}, {"tls_cert": "/nope", "tls_key": "/nope"}, {"tls_root_ca_file": "/nope"}],
)
async def test_what_an_nsqd_would_refuse_leaves_the_data_as_it_is(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        await open_node(options(tmp_path, **wrong))
    assert os.listdir(tmp_path) == []


async def test_a_file_that_is_none_lets_go_of_the_data_path(tmp_path: Path) -> None:
    (tmp_path / "nsqd.dat").write_text("{")
    with pytest.raises(PenstockError, match=r"^failed to load metadata - ") as refused:
        await open_node(options(tmp_path))
    assert not isinstance(refused.value, ConfigError)  # its text needs no words before it
    (tmp_path / "nsqd.dat").unlink()
    await (await open_node(options(tmp_path))).close()
