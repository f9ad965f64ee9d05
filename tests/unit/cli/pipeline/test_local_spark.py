"""A session for a look: what it is given, and that it ends whatever happens."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.pipeline.local_spark import local_spark
from penstock.spark import session as session_module
from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.spec import read

TEXT = """
[source]
topic = "t"
nsqd_http_address = "h:1"
[sink]
format = "delta"
[run]
packages = "io.delta:delta-spark_2.13:4.0.0"
settings = {"spark.driver.memory" = "2g"}
"""


def test_it_has_what_the_pipelines_need_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    stopped: list[str] = []

    def session(master: str, *, settings: dict[str, str], log: Any) -> str:
        asked.update(settings)
        return "spark"

    monkeypatch.setattr(session_module, "session", session)
    monkeypatch.setattr(session_module, "stop", stopped.append)
    pipeline = Pipeline(read(Document("p.toml", TEXT), {}))

    def look() -> None:
        with local_spark([pipeline]) as spark:
            assert str(spark) == "spark"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look()
    assert stopped == ["spark"]
    assert asked["spark.jars.packages"] == "io.delta:delta-spark_2.13:4.0.0"
    assert asked["spark.driver.memory"] == "2g"


def test_several_pipelines_have_the_packages_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(session_module, "session", lambda _, settings, log: asked.update(settings))
    monkeypatch.setattr(session_module, "stop", lambda _: None)
    others = ("", 'packages = ["a:b:1", "io.delta:delta-spark_2.13:4.0.0"]', 'packages = "c:d:2"')
    texts = [TEXT, *(TEXT.partition("[run]")[0] + f"[run]\n{other}\n" for other in others)]
    with local_spark([Pipeline(read(Document("p.toml", text), {})) for text in texts]):
        pass
    assert asked["spark.jars.packages"] == "io.delta:delta-spark_2.13:4.0.0,a:b:1,c:d:2"
    assert asked["spark.driver.memory"] == "2g"
