"""Writers of ``format("rocketmq")``."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.formats.rocketmq import RocketmqDataSource
from tests.unit.spark.sink.making import schema

OPTIONS = {"topic": "t", "namesrvAddr": "h:1"}


def test_writers_are_pickled_to_the_tasks() -> None:
    source = RocketmqDataSource(OPTIONS)
    given = schema("body binary,keys string,delay_level bigint")
    writer: Any
    for writer in (source.writer(given, False), source.streamWriter(given, True)):
        again = pickle.loads(pickle.dumps(writer))
        assert again.output == writer.output


def test_delays_are_not_for_exactly_once() -> None:
    given = {"topic": "t", "nsqd_http_address": "h:1", "exactlyOnce": "true"}
    RocketmqDataSource(given).streamWriter(schema("body binary"), False)
    with pytest.raises(OptionError, match="delay_level is not for exactlyOnce"):
        RocketmqDataSource(given).streamWriter(schema("body binary,delay_level bigint"), False)
    with pytest.raises(OptionError, match="needs writerId and writerBatch"):
        RocketmqDataSource(given).writer(schema("body binary"), False)


def test_queues_are_not_for_exactly_once() -> None:
    given = {"topic": "t", "nsqd_http_address": "h:1", "exactlyOnce": "true"}
    with pytest.raises(OptionError, match=r"column queue is not for .* a sharding_key keeps rows"):
        RocketmqDataSource(given).streamWriter(schema("body binary,queue bigint"), False)


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match="cannot be overwritten"):
        RocketmqDataSource(OPTIONS).writer(schema("body binary"), True)
