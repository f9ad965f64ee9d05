from __future__ import annotations

import pytest

from penstock.admin.rocketmq.changes.masters import chosen_masters, told_all
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Broker
from tests.unit.admin.rocketmq.scripted import Scripted


async def test_brokers_are_chosen_by_name_and_all_without_names() -> None:
    servers = Scripted()
    assert [each.name for each in await chosen_masters(servers, ())] == ["a", "b"]
    assert [each.name for each in await chosen_masters(servers, ["b", "b"])] == ["b"]
    with pytest.raises(ApiError, match="BROKER_NOT_FOUND"):
        await chosen_masters(servers, ["a", "nope"])


async def test_one_that_refuses_is_a_warning_and_all_that_refuse_are_an_error() -> None:
    brokers = await Scripted().brokers()
    warnings = Warnings()

    async def only_a(broker: Broker) -> None:
        if broker.name != "a":
            raise Refused(16, "no permission")

    await told_all(brokers, only_a, warnings)
    assert warnings.message == "WARNING: broker b: CODE: 16  DESC: no permission"
    with pytest.raises(NoAnswerError, match="nothing was changed: broker b: CODE: 16"):
        await told_all(brokers[1:], only_a, Warnings())
    with pytest.raises(NoAnswerError, match="there is no master"):
        await told_all([], only_a, Warnings())
