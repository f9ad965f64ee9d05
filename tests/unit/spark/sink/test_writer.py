"""From options and columns to a writer."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.formats.nsq import NsqDataSource
from tests.unit.spark.sink.making import schema

SCHEMA = schema("body binary")
OPTIONS = {"topic": "t", "nsqd_http_address": "h:1"}


def test_writers_are_pickled_to_the_tasks() -> None:
    source = NsqDataSource(OPTIONS)
    writer: Any
    for writer in (source.writer(SCHEMA, False), source.streamWriter(SCHEMA, True)):
        again = pickle.loads(pickle.dumps(writer))
        assert again.settings == writer.settings
        assert again.output.columns.body == "body"


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(OptionError) as refused:
        NsqDataSource(OPTIONS).writer(SCHEMA, True)
    assert str(refused.value) == ('messages of a topic cannot be overwritten: use mode("append")')


def test_what_belongs_to_batch_writes_is_refused_for_a_stream() -> None:
    given = {**OPTIONS, "exactlyOnce": "true", "writerId": "w", "writerBatch": "1"}
    NsqDataSource(given).writer(SCHEMA, False)
    with pytest.raises(OptionError, match="for batch writes"):
        NsqDataSource(given).streamWriter(SCHEMA, False)


@pytest.mark.parametrize("streaming", [False, True])
def test_exactly_once_needs_a_fixed_list_of_nodes(streaming: bool) -> None:
    given = {"topic": "t", "lookupd_http_address": "h:1", "exactlyOnce": "true"}
    source = NsqDataSource(given if streaming else given | {"writerId": "w", "writerBatch": "1"})
    with pytest.raises(OptionError, match="needs the fixed list of nodes"):
        (source.streamWriter if streaming else source.writer)(SCHEMA, False)
