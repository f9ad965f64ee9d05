"""The places that a request means, on real nodes."""

from __future__ import annotations

import pytest

from penstock.admin.messages.logs import Place
from penstock.admin.messages.nodes import Nodes
from penstock.admin.messages.search.request import WalkBody, places
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError
from tests.programs.admin.messages.conftest import Pair


async def test_all_that_is_kept_unless_told(pair: Pair) -> None:
    nodes, warnings = Nodes(pair.running.admin.cluster), Warnings()
    assert await places(nodes, WalkBody("t", kind="all"), warnings) == [
        Place(each, 0, 20) for each in pair.names
    ]
    (no_log,) = warnings.errors
    assert no_log.startswith(f"{pair.go.address} keeps no log")


async def test_where_an_answer_ended_within_what_is_held(pair: Pair) -> None:
    nodes, warnings = Nodes(pair.running.admin.cluster), Warnings()
    text = f"scan:{pair.names[0]}@3-99,gone:1@0-9"
    assert await places(nodes, WalkBody("t", from_=text), warnings) == [Place(pair.names[0], 3, 20)]
    assert warnings.errors == ["gone:1 is not searched any further: its log cannot be asked for"]
    with pytest.raises(ApiError, match="NODE_NOT_FOUND"):
        await places(nodes, WalkBody("t", from_="scan:gone:1@0-9"), warnings)
