"""The logs of a topic, and where a request begins in each."""

from __future__ import annotations

import pytest

from penstock.admin.messages.logs import Logs, begin, logs_of
from penstock.admin.messages.nodes import Nodes
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.fanout import Warnings
from penstock.log_api.bounds import Bounds
from penstock.net.http.server.api import ApiError
from penstock.net.http.server.service import Response
from tests.unit.admin.conftest import Two, topic


def told(two: Two, *, ours: object) -> Nodes:
    """Both nodes have the topic `t`; the second one answers as Go's."""
    for each in two.nsqds:
        each.answers |= {"/info": each.told(), "/stats": {"topics": [topic("t")]}}
    two.nsqds[0].answers["/log/offsets"] = ours
    return Nodes(two.direct)


async def test_those_that_keep_one(two: Two) -> None:
    nodes, warnings = told(two, ours={"queues": [{"start": 3, "end": 9}]}), Warnings()
    logs = await logs_of(nodes, "t", "", warnings)
    assert logs == Logs("t", {two.nsqds[0].address: Bounds(3, 9)})
    assert [each.partition(" ")[0] for each in warnings.errors] == [two.nsqds[1].address]


async def test_a_node_that_is_named_alone(two: Two) -> None:
    nodes = told(two, ours={"queues": [{"start": 3, "end": 9}]})
    assert list((await logs_of(nodes, "t", two.nsqds[0].address, Warnings())).held) == [
        two.nsqds[0].address]  # fmt: skip
    with pytest.raises(ApiError, match="NOT_OFFERED"):
        await logs_of(nodes, "t", two.nsqds[1].address, Warnings())


async def test_none_that_tells(two: Two) -> None:
    with pytest.raises(NoAnswerError, match="500"):
        await logs_of(told(two, ours=Response(500, b"")), "t", "", Warnings())


async def test_where_to_begin(two: Two) -> None:
    asker = two.direct.asker
    one, other = (each.address for each in two.nsqds)
    logs = Logs("t", {one: Bounds(3, 9), other: Bounds(0, 0)})
    assert await begin(asker, logs, "oldest", Warnings()) == {one: 3, other: 0}
    assert await begin(asker, logs, "newest", Warnings()) == {one: 9, other: 0}
    two.nsqds[0].answers["/log/offset_at"] = {"offset": 5}
    warnings = Warnings()
    assert await begin(asker, logs, "time:1700000000000", warnings) == {one: 5}
    assert len(warnings.errors) == 1
    assert f"GET /log/offset_at?topic=t&timestamp_ns={1700000000000 * 10**6}" in two.nsqds[0].asked
    for text in ("7", "", "before:x", "time:", "time:-1", "\N{ARABIC-INDIC DIGIT ONE}"):
        with pytest.raises(ApiError, match="INVALID_ARG_FROM"):
            await begin(asker, logs, text, Warnings())
    alone = Logs("t", {one: Bounds(3, 9)})
    assert [(await begin(asker, alone, text, Warnings()))[one] for text in ("0", "7", "99")] == [
        3, 7, 9]  # fmt: skip
