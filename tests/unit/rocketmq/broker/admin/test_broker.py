"""What the broker tells of itself, and the data that it lets go of on demand."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.core.metrics import mqbroker as metrics
from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.names import SCHEDULE_TOPIC
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.log import Log, LogOptions
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock
from tests.metrics_pages import parse
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import ask, ask_json, ask_later, refused

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


def table(services: Services) -> Any:
    return ask_json(services, Code.GET_BROKER_RUNTIME_INFO)["table"]


def test_all_that_tools_read_is_there_as_text(services: Services, tmp_path: Path) -> None:
    found = table(services)
    ours = {f"commitLogDiskRatio_{tmp_path}", *KEYS_SINCE_5.split()}
    assert set(found) == {*JAVAS_KEYS.split(), *ours}
    assert all(isinstance(value, str) for value in found.values())
    assert found["brokerVersionDesc"] == "V4_9_8"
    # Apache's exporter for Prometheus skips a broker without size and capacity of thread pools.
    for pool in ("send", "pull", "query"):
        assert int(found[f"{pool}ThreadPoolQueueSize"]) == 0
        assert int(found[f"{pool}ThreadPoolQueueCapacity"]) > 0
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
    code = Code.VIEW_BROKER_STATS_DATA
    assert ask(services, code, statsName="TOPIC_PUT_NUMS", statsKey="T").body == (
        b'{"statsDay":{"avgpt":3.0,"sum":3,"tps":0.0008333333333333334},'
        b'"statsHour":{"avgpt":3.0,"sum":3,"tps":0.005},'
        b'"statsMinute":{"avgpt":3.0,"sum":3,"tps":0.3}}'
    )
    with refused(ResponseCode.SYSTEM_ERROR, r"^The stats <TOPIC_PUT_NUMS> <Nope> not exist$"):
        ask(services, code, statsName="TOPIC_PUT_NUMS", statsKey="Nope")


async def test_what_the_broker_counts(services: Services) -> None:
    totals = services.stats.totals
    totals.put_messages, totals.put_bytes, totals.put_failures = 5, 60, 1
    totals.got_messages, totals.found, totals.missed = 4, 3, 2
    found = services.metrics((1, 2))
    page = parse("".join([samples.text() async for samples in found.source()]))
    assert page.keys() == {metric.name for metric in metrics.LIST.metrics}
    for metric, value in (
        (metrics.PUT_MESSAGES, 5),
        (metrics.PUT_BYTES, 60),
        (metrics.PUT_FAILURES, 1),
        (metrics.GOT_MESSAGES, 4),
        (metrics.CONNECTIONS, 2),
        (metrics.DELAYED, 0),
        (metrics.NAME_SERVERS, 0),
    ):
        assert page[metric.name].value() == value
    assert page[metrics.PULLS.name].value(found="true") == 3
    assert page[metrics.PULLS.name].value(found="false") == 2


# --- letting go -----------------------------------------------------------------------------------


KEPT = 72 * HOUR


async def fill(services: Services, topic: str, queues: int) -> None:
    """A topic that is kept for a time, with many small segments."""
    services.topics.put(TopicConfig(topic, queues, queues), services.now_ms)
    found = services.store.topic(topic)
    found.retention = Retention(time_ns=KEPT)
    assert isinstance(found.log, Log)
    found.log.options = LogOptions(max_bytes_per_file=1000)
    for number in range(12):
        await store(services, topic, number % queues, bytes(300))


async def test_what_retention_does_not_keep_is_deleted(
    services: Services, clock: FakeClock
) -> None:
    await fill(services, "T", 1)
    clock.advance(KEPT)
    assert ask(services, Code.DELETE_EXPIRED_COMMITLOG).code == 0
    assert services.store.bounds("T", 0) == (0, 12)
    clock.advance(1)
    assert ask(services, Code.DELETE_EXPIRED_COMMITLOG).code == 0
    low, high = services.store.bounds("T", 0)
    assert 0 < low < high == 12
    assert services.store.message_at("T", 0, low) is not None


async def test_queues_forget_what_is_gone(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(services, "T", 2)
    queues, trimmed = services.store.topic("T").queues, []
    monkeypatch.setattr(queues, "trim", lambda: trimmed.append("T"))
    assert ask(services, Code.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert trimmed == ["T"]
    assert services.store.bounds("T", 1) == (0, 6)


async def test_the_data_of_topics_without_configuration(services: Services) -> None:
    broker = services.node.broker
    for name in ("kept", "left", "read", "replayed"):
        await store(services, name, 0, b"1")
    services.topics.put(TopicConfig("kept", 1, 1), services.now_ms)
    broker.topics["read"].channel("c")
    broker.topics["replayed"].commit_group("g", None)
    topic = services.node.registry.topic("nsq")
    services.node.commits.publish(topic, Bodies.from_list([b"1"]), 0, lambda error: None)
    services.node.registry.topic("empty")
    answer = await ask_later(services, Code.CLEAN_UNUSED_TOPIC)
    assert answer.code == 0
    assert sorted(broker.topics) == ["empty", "kept", "nsq", "read", "replayed"]
    assert services.store.bounds("left", 0) == (0, 0)
    assert services.stats.view("TOPIC_PUT_NUMS", "left") is None
