from __future__ import annotations

import pytest

from penstock.admin.messages.nodes import Nodes, answered, refusal
from penstock.cluster.asker import Asker
from penstock.cluster.errors import GO, Asked, RefusedError, UpstreamError
from penstock.cluster.exchange import Endpoint
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError
from tests.unit.admin.conftest import Two


def refused(status: int, body: bytes) -> RefusedError:
    return RefusedError(GO, Asked("GET", Endpoint.of("h:1"), "/"), status, body)


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


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (refused(404, b'{"message":"NOT_FOUND"}'), 501, "NOT_OFFERED"),
        (refused(404, b'{"message":"TOPIC_NOT_FOUND"}'), 404, "TOPIC_NOT_FOUND"),
        (refused(400, b'{"message":"INVALID_ARG_LIMIT"}'), 400, "INVALID_ARG_LIMIT"),
        (refused(400, b'{"message":"<b>"}'), 502, "UPSTREAM_ERROR: got response 400"),
        (refused(404, b"no page"), 502, "UPSTREAM_ERROR: got response 404 Not Found"),
        (refused(500, b'{"message":"INTERNAL_ERROR"}'), 502, "UPSTREAM_ERROR: got response 500"),
        (UpstreamError("EOF"), 502, "UPSTREAM_ERROR: EOF"),
    ],
)
def test_refusals(error: UpstreamError, status: int, code: str) -> None:
    found = refusal(error)
    assert (found.status, found.code[: len(code)]) == (status, code)


async def test_answered(asker: Asker) -> None:
    with pytest.raises(ApiError, match="UPSTREAM_ERROR: Get "):
        await answered(asker.get("127.0.0.1:9", "/", dict))
