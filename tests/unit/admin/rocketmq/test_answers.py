"""Words of requests and answers about RocketMQ: arguments, names, lags, paces and settings."""

from __future__ import annotations

import pytest

from penstock.admin.rocketmq.answers import required, said, time_of
from penstock.admin.rocketmq.configuration import HIDDEN, accounts, configuration
from penstock.admin.rocketmq.group_rates import APART_S, GroupRates
from penstock.admin.rocketmq.group_settings import known_settings, shown
from penstock.admin.rocketmq.lags import Reading, readings
from penstock.admin.rocketmq.names import group_of, is_system_group, kind_of
from penstock.admin.verdicts.trend import WINDOW_S
from penstock.cluster.fanout import Warnings
from penstock.core.gojson import dumps
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from tests.unit.admin.rocketmq.scripted import A, B, Scripted, progress


def test_arguments_of_requests() -> None:
    assert [time_of(text) for text in ("-1", "0", "1700000000000")] == [-1, 0, 1700000000000]
    for text in ("", "-2", "1.5", "\u0661", "9" * 20):
        with pytest.raises(ApiError, match="INVALID_TIME"):
            time_of(text)
    assert required("t", "topic") == "t"
    with pytest.raises(ApiError, match="MISSING_ARG_TOPIC"):
        required("", "topic")
    query = Query.parse(b"topic=%ffa%C3%9F")
    assert said(query, "topic") == "\N{REPLACEMENT CHARACTER}a\u00df"
    assert said(query, "key") == ""


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", "normal"),
        ("%RETRY%billing", "retry"),
        ("%DLQ%billing", "dlq"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "system"),
        ("rmq_sys_wheel_timer", "system"),
        ("SCHEDULE_TOPIC_XXXX", "system"),
        ("TBW102", "system"),
        ("broker-a", "system"),
        ("main_REPLY_TOPIC", "system"),
        ("shop_REPLY_TOPIC", "normal"),
    ],
)
def test_the_name_of_a_topic_says_what_it_is(topic: str, kind: str) -> None:
    assert kind_of(topic, {"main", "broker-a"}) == kind


def test_groups_are_known_by_their_names_and_by_those_of_their_topics() -> None:
    named = ("TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "billing")
    assert [is_system_group(each) for each in named] == [True, True, False]
    assert [group_of(each) for each in ("%RETRY%g", "%DLQ%g", "g")] == ["g", "g", ""]


STATS = RequestCode.GET_BROKER_CONSUME_STATS


async def test_lags_are_added_up_over_brokers_and_tools_are_left_out() -> None:
    stats = [{"g": [progress("a", 9, 4)]}, {"TOOLS_CONSUMER": [progress("a", 9, 0)]}]
    more = {"consumeStatsList": [{"g": [progress("b", 3, 3), progress("b", 2, 0, topic="u")]}]}
    servers = Scripted({(A, STATS): {"consumeStatsList": stats}, (B, STATS): more})
    found, answered = await readings(servers, await servers.brokers(), Warnings())
    assert list(found) == ["g"]
    assert (found["g"].lags, found["g"].lag, found["g"].tps) == ({"t": 5, "u": 2}, 7, 3.0)
    assert (found["g"].end, found["g"].consumed) == (14, 7)
    assert [each.name for each in answered] == ["a", "b"]


async def test_a_broker_that_refuses_is_named() -> None:
    servers = Scripted({(A, STATS): Refused(1, "busy"), (B, STATS): {"consumeStatsList": []}})
    warnings = Warnings()
    _, answered = await readings(servers, await servers.brokers(), warnings)
    assert [each.name for each in answered] == ["b"]
    assert warnings.message == "WARNING: broker a: CODE: 1  DESC: busy"


def reading(end: int, consumed: int, queues: int = 1) -> Reading:
    return Reading("g", lags={"t": end - consumed}, end=end, queues=queues)


def looked(*looks: tuple[float, int, int]) -> tuple[float | None, float | None]:
    """The pace after looks at these times."""
    rates = GroupRates()
    for time_s, end, consumed in looks:
        rates.take(time_s, [reading(end, consumed)])
    rate = rates.of("g")
    assert rate
    return rate.growth, rate.out


LATER_S = WINDOW_S + 10


@pytest.mark.parametrize(
    ("looks", "growth", "out"),
    [
        ([], None, None),
        ([(10, 200, 70)], None, 2),
        ([(10, 200, 70), (20, 300, 90)], 8, 2),
        ([(10, 200, 70), (10 + APART_S / 2, 900, 70)], None, 2),
        ([(LATER_S + time, 900 + time, 900) for time in (0, 10, 20)], 1, 0),
        ([(10, 200, 70), (20, 200, 0)], None, None),
        ([(10, 200, 70), (20, 200, 0), (30, 200, 50)], None, 5),
        ([(10, 200, 70), (-500, 300, 90)], None, None),
    ],
    ids=["one look", "two make a rate", "three make a slope", "at the same time",
         "only the last minutes count", "offsets go back", "and go on", "clock set back"],
)  # fmt: skip
def test_the_pace_of_a_group(
    looks: list[tuple[float, int, int]], growth: float | None, out: float | None
) -> None:
    assert looked((0, 100, 50), *looks) == (growth, out)


def test_a_broker_that_answers_again_is_no_growth() -> None:
    rates = GroupRates()
    for time_s, queues in ((0, 2), (10, 1), (20, 1), (30, 1), (40, 2), (50, 2), (60, 2)):
        rates.take(time_s, [reading(queues * 1000 + time_s, time_s, queues)])
    rate = rates.of("g")
    assert rate
    assert (rate.growth, rate.out) == (0, 1)


def test_a_group_that_is_gone_is_forgotten() -> None:
    rates = GroupRates()
    rates.take(0, [reading(1, 1)])
    rates.take(5, [])
    assert rates.of("g") is None


GROUPS = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG


def test_what_a_broker_does_not_say_is_the_usual() -> None:
    found = shown({"retryMaxTimes": 3, "more": 1})
    assert (found["retries"], found["consumes"], found["retry_queues"]) == (3, True, 1)
    assert "more" not in found


async def test_a_broker_that_does_not_say_is_not_one_without_the_group() -> None:
    servers = Scripted(
        {(A, GROUPS): {"subscriptionGroupTable": {}}, (B, GROUPS): Refused(1, "busy")}
    )
    warnings = Warnings()
    assert await known_settings(servers, await servers.brokers(), "g", warnings) == {"a": {}}
    assert warnings.message == "WARNING: broker b: CODE: 1  DESC: busy"


CONFIG = RequestCode.GET_BROKER_CONFIG
TOLD = Command(0, 0, None, b"listenPort=10911\ninitAuthenticationUser={x}\nsecretKey=\n")
ACCOUNTS = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
TOLD_ACCOUNTS = {
    "globalWhiteAddrs": ["10.0.0.*"],
    "plainAccessConfigs": [
        {"accessKey": "shop", "secretKey": "12345678", "admin": False, "topicPerms": ["t=PUB"],
         "password": "another"},
    ],
}  # fmt: skip


async def test_settings_by_name_and_no_secrets() -> None:
    refused = Refused(ResponseCode.NO_PERMISSION, "denied")
    found = await configuration(Scripted({(A, CONFIG): TOLD, (B, CONFIG): refused}))
    a, b = found["brokers"]
    assert (a["broker"], a["address"]) == ("a", A)
    assert a["settings"] == {
        "initAuthenticationUser": HIDDEN, "listenPort": "10911", "secretKey": "",
    }  # fmt: skip
    assert (b["settings"], b["reason"]) == (None, "denied")


async def test_a_broker_that_does_not_answer_says_why_and_hides_no_other() -> None:
    found = await configuration(Scripted({CONFIG: NotConnected(A, "gone", "")}))
    assert [each["reason"] for each in found["brokers"]] == [f"{A}: gone"] * 2
    gone = NotConnected(B, "refused")
    found = await accounts(Scripted({(A, ACCOUNTS): TOLD_ACCOUNTS, (B, ACCOUNTS): gone}))
    a, b = found["brokers"]
    assert (len(a["accounts"]), b["accounts"]) == (1, None)
    assert b["reason"] == f"{B}: refused; {NotConnected.REMEDY}"


async def test_accounts_have_no_secrets_whatever_a_broker_tells() -> None:
    refused = Refused(ResponseCode.SYSTEM_ERROR, "aclEnable is false")
    found = await accounts(Scripted({(A, ACCOUNTS): TOLD_ACCOUNTS, (B, ACCOUNTS): refused}))
    a, b = found["brokers"]
    assert (a["accounts"][0]["account"], a["accounts"][0]["topics"]) == ("shop", ["t=PUB"])
    assert a["trusted"] == ["10.0.0.*"]
    assert (b["accounts"], b["reason"]) == (None, "aclEnable is false")
    assert b"12345678" not in dumps(found)
    assert b"another" not in dumps(found)
