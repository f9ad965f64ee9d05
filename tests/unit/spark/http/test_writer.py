"""Columns that are posted, dead letters, and what a task does with refusals."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from penstock.spark.errors import OptionError, SinkError
from penstock.spark.http import writer
from penstock.spark.http.posting import Refused
from penstock.spark.http.settings import Settings
from penstock.spark.http.writer import HttpDataSource, HttpStreamWriter, Posted, body_column, letter

URL = "http://h/"
BODY = StructType().add("body", BinaryType())


def test_columns() -> None:
    assert body_column(BODY, URL) == "body"
    assert body_column(StructType().add("value", StringType()).add("url", StringType()), "") == (
        "value"
    )
    for schema, url, said in (
        (StructType().add("n", IntegerType()), URL, "format http posts the column body"),
        (StructType().add("body", IntegerType()), URL, "format http posts the column body"),
        (BODY, "", "say where to post"),
        (StructType(list(BODY.fields)).add("url", IntegerType()), URL, "column url must be string"),
        (StructType(list(BODY.fields)).add("n", IntegerType()), URL, "no column n"),
    ):
        with pytest.raises(OptionError, match=said):
            body_column(schema, url)


class FakePoster:
    """Refuses every body that begins with x."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __enter__(self) -> FakePoster:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def post_all(self, rows: list[tuple[str, bytes]]) -> list[Refused]:
        return [Refused(url, body, "status 400") for url, body in rows if body[:1] == b"x"]


def write(monkeypatch: pytest.MonkeyPatch, batch: pa.RecordBatch, **options: str) -> Any:
    monkeypatch.setattr(writer, "Poster", FakePoster)
    source = HttpDataSource({"url": URL, **options})
    stream: Any = source.streamWriter(BODY, False)
    assert isinstance(stream, HttpStreamWriter)
    return stream.write(iter([batch]))


def test_refused_bodies_become_letters_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[dict[str, str]] = []

    def publish(batches: list[pa.RecordBatch], reader: Any, settings: Any) -> None:
        published.extend(json.loads(body) for body in batches[0].column("body").to_pylist())
        assert (settings.topic, settings.nodes) == ("refused", ("n:1",))

    monkeypatch.setattr(writer, "publish_rows", publish)
    batch = pa.record_batch({"body": [b"one", b"x", b"two"]})
    options = {"deadLetters": "refused", "nsqd_http_address": "n:1"}
    assert write(monkeypatch, batch, **options) == Posted(2, 1)
    assert published == [{"reason": "status 400", "url": URL, "body": "x"}]
    with pytest.raises(SinkError) as failed:
        write(monkeypatch, batch)
    assert str(failed.value) == (
        "http://h/ does not take a body of 1 bytes: status 400; 1 in this task. The option "
        "deadLetters names a topic for such"
    )
    with pytest.raises(SinkError, match="a row has no body"):
        write(monkeypatch, pa.record_batch({"body": [None]}))


def test_letters_of_bodies_that_are_no_text() -> None:
    assert json.loads(letter(Refused(URL, b"\xff", "r"))) == {
        "reason": "r", "url": URL, "body_base64": "/w==",
    }  # fmt: skip


def test_dead_letters_wait_for_a_node_as_long_as_the_options_say() -> None:
    given = {"url": URL, "deadletters": "d", "nsqd_http_address": "h:1", "timeout": "60"}
    assert writer._nsq_settings(given, "d").timeout_s == 60
