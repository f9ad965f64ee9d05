from __future__ import annotations

from penstock.admin.rocketmq.group_settings import known_settings, shown
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode

from .scripted import A, B, Scripted

CODE = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG


def test_what_a_broker_does_not_say_is_the_usual() -> None:
    found = shown({"retryMaxTimes": 3, "more": 1})
    assert (found["retries"], found["consumes"], found["retry_queues"]) == (3, True, 1)
    assert "more" not in found


async def test_a_broker_that_does_not_say_is_not_one_without_the_group() -> None:
    servers = Scripted({(A, CODE): {"subscriptionGroupTable": {}}, (B, CODE): Refused(1, "busy")})
    warnings = Warnings()
    assert await known_settings(servers, await servers.brokers(), "g", warnings) == {"a": {}}
    assert warnings.message == "WARNING: broker b: CODE: 1  DESC: busy"
