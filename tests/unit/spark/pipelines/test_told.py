"""The nodes that a pipeline reports to, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark.pipelines import own
from penstock.spark.pipelines.spec import Parse, Run, Sink, Source, Spec
from penstock.spark.pipelines.told import about, about_bad

FILES = Source("parquet", {"path": "/lake"})
CONSOLE = Sink("console", {})


def spec(source: Source = FILES, sink: Sink = CONSOLE, **more: Any) -> Spec:
    return Spec("n", source, sink, Run(1000, "c"), **more)


def nsq(**options: str) -> dict[str, str]:
    return {"topic": "t", "nsqd_http_address": "h:1,i:2"} | options


def test_nodes_of_the_source_with_its_tls() -> None:
    found = about(spec(Source("nsq", nsq(tls_v1="true", auth_secret="s")), query="select 1"))
    assert list(found.nodes()) == ["h:1", "i:2"]
    assert found.access is not None
    assert (found.access.tls, found.access.auth_secret) == (True, "s")
    assert (found.source, found.sink, found.sql) == ("nsq t", "console", "select 1")


def test_nodes_of_the_sink_where_the_source_has_none() -> None:
    found = about(spec(sink=Sink("nsq", nsq(exactlyOnce="true"))))
    assert (list(found.nodes()), found.source) == (["h:1", "i:2"], "parquet /lake")


@pytest.mark.parametrize("topic", ["%DLQ%billing", "a" * 80, "*"])
def test_topics_whose_names_only_rocketmq_has(topic: str) -> None:
    found = about(spec(Source("rocketmq", nsq(topic=topic))))
    assert (list(found.nodes()), found.source) == (["h:1", "i:2"], f"rocketmq {topic}")


def test_nobody_to_tell() -> None:
    found = about(spec(Source("rocketmq", {"topic": "t", "namesrvAddr": "h:9876"})))
    assert (list(found.nodes()), found.access) == ([], None)


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"startingOffsets": "earliest"}, [("t", own.group_name("t", "c", "n"))]),
        ({"startingOffsets": "earliest", "topic": "t, u", "group": "g"}, [("t", "g"), ("u", "g")]),
        ({"startingOffsets": "earliest", "topic": "*", "group": "g"}, [("*", "g")]),
        ({"startingOffsets": "latest"}, []),
        ({}, []),
        ({"startingOffsets": "earliest", "groupIdPrefix": "p"}, []),
    ],
)
def test_the_groups_that_it_will_have(options: Any, groups: list[tuple[str, str]]) -> None:
    assert list(about(spec(Source("nsq", nsq(**options)))).groups) == groups


def test_the_group_of_bad_rows() -> None:
    source = Source("nsq", nsq(startingOffsets="earliest", group="g"))
    found = about_bad(spec(source, parse=Parse("n int", bad="t.bad"), query="q"))
    assert found.groups == (("t", "g.bad"),)


def test_the_query_of_bad_rows() -> None:
    found = about_bad(spec(Source("nsq", nsq()), parse=Parse("n int", bad="t.bad"), query="q"))
    assert (found.sink, found.sql) == ("nsq t.bad", "")
