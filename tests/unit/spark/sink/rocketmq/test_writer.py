"""Writers of ``format("rocketmq")``."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.rocketmq.source import RocketmqDataSource
from tests.unit.spark.sink.making import schema

OPTIONS = {"topic": "t", "namesrvAddr": "h:1"}


def test_writers_are_pickled_to_the_tasks() -> None:
    source = RocketmqDataSource(OPTIONS)
    given = schema("body binary,keys string,delay_level bigint")
    writer: Any
    for writer in (source.writer(given, False), source.streamWriter(given, True)):
        again = pickle.loads(pickle.dumps(writer))
        assert (again.settings, again.body) == (writer.settings, "body")


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match="cannot be overwritten"):
        RocketmqDataSource(OPTIONS).writer(schema("body binary"), True)
