"""Decisions of a pipeline that need no Spark; queries are in tests/spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.pipelines import needed
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.spec import Parse, Run, Sink, Source, Spec
from penstock.spark.settings import Settings

NODE = {"topic": "t", "nsqd_http_address": "h:1"}


def pipeline(source: Source, sink: Sink | None = None, **run: Any) -> Pipeline:
    usual = Sink("console", {})
    return Pipeline(
        Spec("n", source, sink or usual, Run(1000, "c", **run), Parse("n int", bad="t.bad"))
    )


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        (Source("nsq", NODE), "found by the optimiser"),
        (Source("nsq", NODE, "body binary"), "body binary"),
        (Source("nsq", NODE | {"Columns": "topic,body"}), None),
        (Source("kafka", {}), None),
    ],
)
def test_columns_are_found_unless_the_file_chooses(
    monkeypatch: pytest.MonkeyPatch, source: Source, schema: str | None
) -> None:
    asked: list[Source] = []
    monkeypatch.setattr(Pipeline, "_needed", lambda *_: "found by the optimiser")
    monkeypatch.setattr(Pipeline, "_source", lambda _, spark, source: asked.append(source))
    monkeypatch.setattr(Pipeline, "transformed", lambda *_: None)
    monkeypatch.setattr(needed, "sources", lambda _: 1)
    spark: Any = None
    pipeline(source).frame(spark)
    assert [each.schema for each in asked] == [schema]


def test_a_group_cannot_be_that_of_two_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pipeline, "_source", lambda *_: None)
    monkeypatch.setattr(Pipeline, "transformed", lambda *_: None)
    monkeypatch.setattr(needed, "sources", lambda _: 2)
    spark: Any = None
    grouped = Source("nsq", NODE | {"group": "g"}, "body binary")
    with pytest.raises(OptionError, match="give groupIdPrefix in place of group"):
        pipeline(grouped).frame(spark)


def test_a_watermark_finds_its_column_whatever_its_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(needed, "columns", lambda *_: ["body"])
    parse = Parse("n int", ("Timestamp", "1 minute"), ("n",))
    made = Pipeline(Spec("n", Source("nsq", NODE), Sink("console", {}), Run(1000, "c"), parse))
    spark: Any = None
    assert made._needed(spark) == "body binary, timestamp timestamp"


@pytest.mark.parametrize(
    ("given", "begins"), [({}, "n-"), ({"group": "g"}, "g"), ({"groupIdPrefix": "billing"}, None)]
)
def test_a_group_of_its_own_unless_the_file_names_one(
    given: dict[str, str], begins: str | None
) -> None:
    asked: dict[str, str] = {}

    class Reader:
        def format(self, _: str) -> Reader:
            return self

        def options(self, **options: str) -> Reader:
            asked.update(options)
            return self

        def load(self) -> None: ...

    spark: Any = SimpleNamespace(
        readStream=Reader(), sparkContext=SimpleNamespace(defaultParallelism=2)
    )
    source = Source("nsq", NODE | given)
    pipeline(source)._source(spark, source)
    group = Settings.parse(asked, "stream").group
    assert group is None if begins is None else str(group).startswith(begins)


def test_settings_of_its_session() -> None:
    made = pipeline(Source("nsq", NODE), packages=("a:b:1", "c:d:2"), settings={"k": "v"})
    assert made.settings == {"k": "v", "spark.jars.packages": "a:b:1,c:d:2"}
    assert pipeline(Source("nsq", NODE)).settings == {}


def test_letters_share_the_promise_of_an_nsq_sink() -> None:
    once = {"exactlyOnce": "true", "topic": "u"}
    assert pipeline(Source("nsq", NODE), Sink("nsq", once))._exactly_once() == {
        "exactlyOnce": "true"
    }
    assert pipeline(Source("nsq", NODE), Sink("delta", once))._exactly_once() == {}
