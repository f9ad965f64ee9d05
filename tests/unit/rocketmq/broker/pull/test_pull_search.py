"""What a queue has for a pull."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.pull import pull_search
from penstock.rocketmq.broker.pull.pull_search import PullHeader
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import request


def header(offset: int, **changes: object) -> PullHeader:
    fields: dict[str, Any] = {
        "consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 0, **changes,
    }  # fmt: skip
    return PullHeader.of(request(RequestCode.PULL_MESSAGE, **fields))


@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [(0, ResponseCode.SUCCESS, 3), (2, ResponseCode.SUCCESS, 3),
     (3, ResponseCode.PULL_NOT_FOUND, 3), (4, ResponseCode.PULL_OFFSET_MOVED, 3)],
)  # fmt: skip
async def test_where_a_pull_goes_on(
    services: Services, offset: int, code: ResponseCode, next_offset: int
) -> None:
    await store(services, "T", 0, b"1", b"2", b"3")
    found = services.search.find(header(offset), Subscription("T"))
    assert (found.code, found.next_offset) == (code, next_offset)
    assert found.messages == max(0, 3 - offset)


async def test_a_search_in_vain_goes_on_behind_what_it_has_looked_at(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_search, "SCAN_MAX", 2)
    await store(services, "T", 0, b"1", b"2", b"3", TAGS="A")
    found = services.search.find(header(0), Subscription.parse("T", "B"))
    assert (found.code, found.next_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 2)


@pytest.mark.parametrize("changes", [{"queueId": "x"}, {"maxMsgBytes": "many"}])
def test_a_field_that_is_no_number_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BodyError, match="no number"):
        header(0, **changes)


@pytest.mark.parametrize("field", ["queueOffset", "commitOffset", "suspendTimeoutMillis"])
def test_a_number_that_no_client_could_read_again_is_refused(field: str) -> None:
    most = (1 << 63) - 1
    assert most in (
        getattr(header(0, **{field: most}), name) for name in PullHeader.__struct_fields__
    )
    with pytest.raises(BodyError, match="more than 64 bits"):
        header(0, **{field: most + 1})
