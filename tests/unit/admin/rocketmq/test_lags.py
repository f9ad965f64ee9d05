from __future__ import annotations

from penstock.admin.rocketmq.lags import readings
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode

from .scripted import A, B, Scripted, progress

CODE = RequestCode.GET_BROKER_CONSUME_STATS


async def test_lags_are_added_up_over_brokers_and_tools_are_left_out() -> None:
    stats = [{"g": [progress("a", 9, 4)]}, {"TOOLS_CONSUMER": [progress("a", 9, 0)]}]
    more = {"consumeStatsList": [{"g": [progress("b", 3, 3), progress("b", 2, 0, topic="u")]}]}
    servers = Scripted({(A, CODE): {"consumeStatsList": stats}, (B, CODE): more})
    found, answered = await readings(servers, await servers.brokers(), Warnings())
    assert list(found) == ["g"]
    assert (found["g"].lags, found["g"].lag, found["g"].tps) == ({"t": 5, "u": 2}, 7, 3.0)
    assert (found["g"].end, found["g"].consumed) == (14, 7)
    assert [each.name for each in answered] == ["a", "b"]


async def test_a_broker_that_refuses_is_named() -> None:
    servers = Scripted({(A, CODE): Refused(1, "busy"), (B, CODE): {"consumeStatsList": []}})
    warnings = Warnings()
    _, answered = await readings(servers, await servers.brokers(), warnings)
    assert [each.name for each in answered] == ["b"]
    assert warnings.message == "WARNING: broker a: CODE: 1  DESC: busy"
