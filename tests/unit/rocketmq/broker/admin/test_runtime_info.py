"""What the broker tells of itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.names import SCHEDULE_TOPIC
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, request

JAVAS_KEYS = (
    "EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity bootTimestamp brokerVersion"
    " brokerVersionDesc commitLogDirCapacity commitLogDiskRatio commitLogMaxOffset"
    " commitLogMinOffset consumeQueueDiskRatio dispatchBehindBytes dispatchMaxBuffer"
    " earliestMessageTimeStamp getFoundTps getMessageEntireTimeMax getMissTps getTotalTps"
    " getTransferedTps msgGetTotalTodayMorning msgGetTotalTodayNow msgGetTotalYesterdayMorning"
    " msgPutTotalTodayMorning msgPutTotalTodayNow msgPutTotalYesterdayMorning"
    " pageCacheLockTimeMills pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills"
    " pullThreadPoolQueueSize putLatency99 putLatency999 putMessageAverageSize"
    " putMessageDistributeTime putMessageEntireTimeMax putMessageFailedTimes putMessageSizeTotal"
    " putMessageTimesTotal putTps queryThreadPoolQueueCapacity"
    " queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize remainHowManyDataToFlush"
    " remainTransientStoreBufferNumbs runtime sendThreadPoolQueueCapacity"
    " sendThreadPoolQueueHeadWaitTimeMills sendThreadPoolQueueSize startAcceptSendRequestTimeStamp"
)
"""The keys of the Java broker 4.9.7, without those that end in a path or a delay level."""
KEYS_SINCE_5 = (
    "brokerActive getTransferredTps timerCongestNum timerDequeueTps timerEnqueueTps"
    " timerOffsetBehind timerReadBehind"
)
PEER = FakePeer()


def table(services: Services) -> dict[str, str]:
    asked = request(RequestCode.GET_BROKER_RUNTIME_INFO)
    value = fastjson.loads(answered(services, PEER.connection, asked).body)
    assert isinstance(value, dict)
    found = value["table"]
    assert isinstance(found, dict)
    return found


def test_all_that_tools_read_is_there_as_text(services: Services, tmp_path: Path) -> None:
    found = table(services)
    ours = {f"commitLogDiskRatio_{tmp_path}", *KEYS_SINCE_5.split()}
    assert set(found) == {*JAVAS_KEYS.split(), *ours}
    assert all(isinstance(value, str) for value in found.values())
    assert found["brokerVersionDesc"] == "V4_9_8"


@pytest.mark.parametrize("queue", ["send", "pull", "query"])
def test_queues_of_thread_pools_are_empty_and_have_room(services: Services, queue: str) -> None:
    """Apache's exporter for Prometheus skips a broker that does not have both keys."""
    found = table(services)
    assert int(found[f"{queue}ThreadPoolQueueSize"]) == 0
    assert int(found[f"{queue}ThreadPoolQueueCapacity"]) > 0
    assert int(found["EndTransactionThreadPoolQueueCapacity"]) > 0


async def test_totals_and_offsets_are_those_of_the_store(
    services: Services, clock: FakeClock
) -> None:
    empty = table(services)
    assert (empty["commitLogMinOffset"], empty["commitLogMaxOffset"]) == ("0", "0")
    assert empty["earliestMessageTimeStamp"] == "-1"
    first_ms = services.now_ms
    first = await store(services, "T", 0, b"1")
    clock.advance(SECOND)
    last = await store(services, "U", 0, b"2", b"3")
    services.stats.got("T", "G", 1, 10)
    found = table(services)
    assert found["earliestMessageTimeStamp"] == str(first_ms)
    assert found["commitLogMinOffset"] == str(first[0].physical_offset)
    assert found["commitLogMaxOffset"] == str(last[-1].physical_offset + 1)
    assert (found["msgPutTotalTodayNow"], found["msgGetTotalTodayNow"]) == ("3", "1")
    nbytes = sum(len(services.store.frame(each.physical_offset) or b"") for each in (*first, *last))
    assert found["putMessageSizeTotal"] == str(nbytes)
    assert found["putMessageAverageSize"] == str(nbytes / 3)


def test_rates_have_three_parts_and_both_spellings(services: Services, clock: FakeClock) -> None:
    services.stats.got("T", "G", 30, 1)
    services.stats.missed()
    clock.advance(10 * SECOND)
    services.stats.tick()
    found = table(services)
    assert found["getTransferedTps"] == found["getTransferredTps"] == "3.0 3.0 3.0"
    assert found["getFoundTps"] == found["getMissTps"] == "0.1 0.1 0.1"
    assert found["getTotalTps"] == "0.2 0.2 0.2"


def test_how_long_it_runs(services: Services, clock: FakeClock) -> None:
    started = services.now_ms
    clock.advance(25 * HOUR + 14 * MINUTE + 39 * SECOND)
    found = table(services)
    assert found["runtime"] == "[ 1 days, 1 hours, 14 minutes, 39 seconds ]"
    assert found["bootTimestamp"] == str(started)


def test_the_disk_is_asked(services: Services, settings: BrokerSettings, tmp_path: Path) -> None:
    found = table(services)
    assert 0 < float(found["commitLogDiskRatio"]) <= 1
    assert found[f"commitLogDiskRatio_{tmp_path}"] == found["consumeQueueDiskRatio"]
    size = r"\d+\.\d [KMGTPE]iB"
    assert re.fullmatch(rf"Total : {size}, Free : {size}\.", found["commitLogDirCapacity"])
    settings.store_path_root_dir = os.path.join(tmp_path, "gone")
    assert table(services)["commitLogDiskRatio"] == "-1.0"


async def test_how_far_delay_levels_are(services: Services) -> None:
    services.topics.put(TopicConfig(SCHEDULE_TOPIC, 18, 18), services.now_ms)
    await store(services, SCHEDULE_TOPIC, 2, b"1", b"2", DELAY="3", REAL_TOPIC="T", REAL_QID="0")
    found = table(services)
    assert found["scheduleMessageOffset_3"] == "0,2"
    assert "scheduleMessageOffset_1" not in found


def test_one_statistic(services: Services) -> None:
    services.stats.put("T", 3, 300)
    services.stats.tick()
    asked = request(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="T")
    answer = answered(services, PEER.connection, asked)
    assert answer.body == (
        b'{"statsDay":{"avgpt":3.0,"sum":3,"tps":0.0008333333333333334},'
        b'"statsHour":{"avgpt":3.0,"sum":3,"tps":0.005},'
        b'"statsMinute":{"avgpt":3.0,"sum":3,"tps":0.3}}'
    )


def test_a_statistic_that_is_not_there(services: Services) -> None:
    asked = request(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="Nope")
    with pytest.raises(RefusedError, match=r"^The stats <TOPIC_PUT_NUMS> <Nope> not exist$") as no:
        hand_over(services, PEER.connection, asked)
    assert no.value.code == ResponseCode.SYSTEM_ERROR
