"""Name servers as nsqadmin asks them: addresses, options, refusals, and how many at once."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from penstock.admin.rocketmq.servers import ASKED_AT_ONCE, Servers, gathered, name_servers
from penstock.cluster.fanout import Warnings
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import ConfigError
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from tests.unit.admin.rocketmq.scripted import Scripted
from tools.harness.ports import unused_address


def test_addresses_come_one_by_one_or_with_semicolons() -> None:
    assert name_servers(["a:1;b:2", "c:3", "a:1"]) == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize(
    ("address", "told"),
    [("a", "--rocketmq-namesrv-address: name server a:"), (":9876", "missing host in address")],
)
def test_addresses_that_mean_nothing_are_refused(address: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        name_servers([address])


async def test_options_are_those_of_the_client() -> None:
    servers = Servers(["a:1"], ["access_key,me", "secret_key,s"], 1, 2, SYSTEM_CLOCK)
    assert (servers.hub.config.access_key, servers.hub.config.request_timeout) == ("me", 2)
    with pytest.raises(ConfigError, match="--rocketmq-client-opt nonsense: invalid option"):
        Servers(["a:1"], ["nonsense,1"], 1, 2, SYSTEM_CLOCK)


async def test_no_name_server_answers() -> None:
    servers = Servers([unused_address()], [], 5, 5, SYSTEM_CLOCK)
    with pytest.raises(NoAnswerError, match="failed to query any name server"):
        await servers.topics()
    await servers.close()


async def test_a_topic_that_nobody_has_is_not_found() -> None:
    refused = Refused(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
    servers = Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: refused})
    with pytest.raises(ApiError) as caught:
        await servers.route("t")
    assert (caught.value.status, caught.value.code) == (404, "TOPIC_NOT_FOUND")


async def test_those_that_fail_are_warnings_beside_the_answers() -> None:
    async def ask(asked: str) -> str:
        if asked == "bad":
            raise NotConnected("h:1", "refused")
        if asked == "strange":
            empty: dict[str, str] = {}
            return empty["key"]
        if asked == "empty":
            raise Refused(17, "nothing")
        return asked.upper()

    warnings = Warnings()
    found = await gathered(["good", "bad", "strange", "empty"], ask, warnings, but=[17])
    assert found == [("good", "GOOD")]
    assert warnings.errors == [
        f"h:1: refused; {NotConnected.REMEDY}",
        "an answer makes no sense: is this a server of RocketMQ?",
    ]


async def test_a_question_that_is_cancelled_while_it_waits_for_others_never_begins() -> None:
    servers = Servers([unused_address()], [], 5, 5, SYSTEM_CLOCK)

    async def wait() -> None:
        await servers.hub.sleep(60)

    others = [asyncio.create_task(servers.run(wait())) for _ in range(ASKED_AT_ONCE)]
    asked = wait()
    question = asyncio.create_task(servers.run(asked))
    await asyncio.sleep(0)
    for task in (question, *others):
        task.cancel()
    await asyncio.gather(question, *others, return_exceptions=True)
    assert inspect.getcoroutinestate(asked) == inspect.CORO_CLOSED
    await servers.close()
