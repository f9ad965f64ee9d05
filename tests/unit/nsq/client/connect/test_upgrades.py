"""Which compression, and how much of it."""

from __future__ import annotations

import pytest

from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.connect.upgrades import compression
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.snappy import SnappyLayer

TEXT = b"".join(b"%d bottles of beer on the wall, " % number for number in range(3000))


def test_both_kinds() -> None:
    assert isinstance(compression("snappy", Config(), ServerInfo()), SnappyLayer)
    assert isinstance(compression("deflate", Config(), ServerInfo()), DeflateLayer)


@pytest.mark.parametrize(("said", "used"), [(1, 1), (9, 9), (0, 9), (10, 9)])
def test_the_level_is_the_nodes_where_it_is_one(said: int, used: int) -> None:
    layer = compression("deflate", Config(deflate_level=9), ServerInfo(deflate_level=said))
    assert layer.send(TEXT) == DeflateLayer(used).send(TEXT)
    assert DeflateLayer(1).send(TEXT) != DeflateLayer(9).send(TEXT)
