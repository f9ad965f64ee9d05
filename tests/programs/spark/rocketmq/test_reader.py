"""Splits of a broker's queues: all of it, and what is lost on the way."""

from __future__ import annotations

import zlib

import pytest

from penstock.rocketmq.protocol.messages.message import SysFlag
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Place
from penstock.spark.planning import Split
from penstock.spark.rocketmq import decode
from penstock.spark.rocketmq.reader import read_split
from penstock.spark.rocketmq.settings import RocketmqSettings
from tests.unit.spark.rocketmq.scripted_broker import NAME, ScriptedBroker

PLACE = Place("t", NAME, 0)


def offsets(broker: ScriptedBroker, start: int, end: int, **options: str) -> list[int]:
    given = {"topic": "t", "namesrvaddr": broker.address, "timeout": "60", **options}
    split = Split(PLACE, broker.address, start, end, 100.0)
    batches = read_split(split, ("queue_offset",), RocketmqSettings.parse(given))
    return [row["queue_offset"] for batch in batches for row in batch.to_pylist()]


def test_a_split_is_read_from_its_start_up_to_its_end(broker: ScriptedBroker) -> None:
    broker.queue().append([b"x" * 500] * 2000)
    assert offsets(broker, 37, 1963) == list(range(37, 1963))
    assert offsets(broker, 37, 1963, fetchbytes="1") == list(range(37, 1963))
    assert list(read_split(None, ("body",), RocketmqSettings())) == []


def test_messages_that_unpack_to_too_much_at_once_come_one_batch_after_the_other(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_BODIES_BYTES_MAX", 25_000)
    broker.queue().append(
        [zlib.compress(b"%d" % number * 10_000) for number in range(10)], SysFlag.COMPRESSED
    )
    split = Split(PLACE, broker.address, 0, 10, 100.0)
    given = {"topic": "t", "namesrvaddr": broker.address, "timeout": "60"}
    found = list(read_split(split, ("body",), RocketmqSettings.parse(given)))
    assert [each.num_rows for each in found] == [2] * 5
    assert [row["body"][:1] for each in found for row in each.to_pylist()] == [
        b"%d" % number for number in range(10)
    ]


def test_what_retention_took_ends_it_unless_told_otherwise(broker: ScriptedBroker) -> None:
    broker.queue().append([b"x"] * 100)
    broker.queue().expire(50)
    with pytest.raises(SourceError, match=f"offset 10 of topic t .*{NAME} is gone: .* starts at 5"):
        offsets(broker, 10, 80)
    assert offsets(broker, 10, 80, failondataloss="false") == list(range(50, 80))


def test_messages_that_the_broker_lost_end_it_unless_told_otherwise(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue()
    queue.append([b"x"] * 30)
    lost = queue.frames[20:25]
    queue.append([b"x"] * 10)
    queue.frames[20:25] = [b""] * len(lost)
    with pytest.raises(SourceError, match=r"offset 20 of topic t .* is missing .* goes on at 25"):
        offsets(broker, 0, 40)
    assert offsets(broker, 0, 40, failondataloss="false") == [*range(20), *range(25, 40)]
    (warning,) = caplog.messages
    assert warning.startswith(f"offset 20 of topic t (queue 0) on node {NAME} is missing")
    assert warning.endswith("; the log goes on at 25. Skipped, as failOnDataLoss=false")
