"""Opening a data path as NSQ's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.options import NsqdOptions


def options(path: Path, **changes: object) -> NsqdOptions:
    return NsqdOptions(**{"data_path": str(path), "node_id": 7, **changes})


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
