"""The cases of `admin/messages/test_nodes.py` that need a port or a process."""

from __future__ import annotations

import pytest

from penstock.admin.cluster.fanout import Warnings
from penstock.admin.messages.nodes import Nodes
from penstock.nsq.http_api import ApiError
from tests.unit.admin.conftest import Two


async def test_only_nodes_of_the_cluster(two: Two) -> None:
    nodes, known = Nodes(two.cluster), two.nsqds[0].address
    warnings = Warnings()
    assert (await nodes.named(known, warnings)).http_address == known
    assert await nodes.address(known, warnings) == known
    assert [each.http_address for each in await nodes.all(warnings)] == [
        each.address for each in two.nsqds
    ]
    for stranger in (two.lookupd.address, "169.254.169.254:80", "", f"{known}/x", f"{known}#"):
        with pytest.raises(ApiError, match="NODE_NOT_FOUND"):
            await nodes.address(stranger, warnings)


async def test_a_node_that_was_given_is_known_without_asking(two: Two) -> None:
    address = two.nsqds[0].address
    assert await Nodes(two.direct).address(address, Warnings()) == address
    assert two.nsqds[0].asked == []
