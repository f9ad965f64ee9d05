"""The sink over HTTP: its options, what it posts, and what becomes of answers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from penstock.core.units import SECOND
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.http import writer
from penstock.spark.http.http_settings import HttpSettings, require_url
from penstock.spark.http.posting import Outage, Refused, retry_after_s
from penstock.spark.http.writer import HttpDataSource, HttpStreamWriter, Posted, body_column, letter
from penstock.testing.clock import FakeClock


def test_the_usual_and_headers() -> None:
    settings = HttpSettings.parse({"url": "http://h/p", "header.Authorization": "Bearer x"})
    assert (settings.concurrency, settings.retries, settings.request_s) == (8, None, 20)
    assert settings.headers == {"Authorization": "Bearer x"}
    assert "Bearer" not in repr(settings)
    assert HttpSettings.parse({"url": "http://h", "retries": "0"}).retries == 0
    settings = HttpSettings.parse({"url": "http://h", "header.content-type": "text/plain"})
    assert (settings.content_type, settings.headers) == ("text/plain", {})


def test_urls() -> None:
    assert require_url("https://h/p?q=1") == ("https", "h", 443, "/p?q=1", "")
    assert require_url("http://exämple.org/")[1] == "exämple.org"
    assert require_url("http://[::1]:81") == ("http", "::1", 81, "/", "")
    assert require_url("http://u:p%40@h")[4] == "Basic dTpwQA=="


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ({"url": url}, f"url must be http:// or https:// and a host, not '{url}'")
            for url in ("ftp://h", "http://h:x", "http://a b/", "http://[::1/p", "http://[h]/",
                        "http://a..b/")
        ),
        ({"url": "http://h/ä"}, "url must have other characters than ASCII as %XX: 'http://h/ä'"),
        ({"url": "http://u:p@h/ä"}, "other characters than ASCII as %XX: 'http://u:***"),
        ({"url": "http://h/a?q=b c"}, "url must have spaces and control characters as %XX: 'http"),
        ({"url": "http://h/a\x7f"}, "url must have spaces and control characters as %XX: 'http"),
        ({"header.a b": "x"}, "header.a b is not a header's name"),
        ({"header.": "x"}, "header. is not a header's name"),
        ({"header.X": "a\nb"}, "the value of X has characters that no header"),
        ({"header.X": "\u20ac"}, "the value of X has characters that no header"),
        ({"contentType": "a", "header.Content-Type": "b"}, "give one of them"),
        ({"contentType": "a\r"}, "the value of contentType has characters"),
        ({"uri": "http://h"}, "format http knows no option uri; did you mean url?"),
        ({"retries": "-1"}, "retries must be a whole number from 0 to "),
        ({"deadLetters": "a b"}, "deadLetters: 'a b' is not a topic's name"),
        ({"deadLetters": "t"}, "deadLetters=t is a topic: say on which nodes, by "
         "nsqd_http_address or lookupd_http_"),
    ],
)  # fmt: skip
def test_what_is_wrong(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        HttpSettings.parse({"url": "http://h"} | options)
    assert said in str(refused.value)


def fail(outage: Outage, clock: FakeClock) -> float:
    """A request that fails at once when it may be sent; the pause that follows."""
    clock.advance(int(outage.wait_s * SECOND))
    outage.failed(clock.monotonic_ns())
    return outage.wait_s


def test_pauses_double_to_half_a_minute_and_begin_again_after_an_answer() -> None:
    clock = FakeClock()
    outage = Outage(clock)
    assert outage.wait_s == 0
    pauses = [fail(outage, clock) for _ in range(10)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    clock.advance(30 * SECOND)
    outage.ended()
    assert fail(outage, clock) == 0.2


def test_requests_that_fail_together_make_one_pause_the_longest_that_was_said() -> None:
    clock = FakeClock()
    outage, asked_ns = Outage(clock), clock.monotonic_ns()
    for _ in range(8):
        outage.failed(asked_ns)
    assert outage.wait_s == 0.2
    outage.failed(asked_ns, 90)
    outage.failed(asked_ns, 60)
    assert outage.wait_s == 90
    outage.ended()  # of a request that was under way
    assert outage.wait_s == 90


def test_it_is_said_after_five_seconds_and_then_every_half_minute() -> None:
    clock = FakeClock()
    outage = Outage(clock)
    said = []
    for _ in range(71):
        lasted_s = outage.failed(clock.monotonic_ns())
        said += [] if lasted_s is None else [lasted_s]
        clock.advance(SECOND)
    assert said == [5, 35, 65]
    assert outage.ended() == 71
    assert outage.ended() is None
    outage.failed(clock.monotonic_ns())
    assert outage.ended() is None, "a failure that passed at once is no news"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", 0), ("soon", 0), ("-5", 0), ("1.5", 0), ("\u0663", 0), (" 7 ", 7), ("0", 0),
        ("3601", 3600), ("9" * 5000, 3600),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 01 Jan 1970 00:02:00 -0000", 20), ("Thu, 01 Jan 9999 00:00:00 GMT", 3600),
        ("Thu, 99 Jan 1970 00:00:00 GMT", 0),
    ],
)  # fmt: skip
def test_the_header_is_seconds_or_a_date_and_bounded(given: str, expected: float) -> None:
    assert retry_after_s(given, FakeClock(100 * SECOND)) == expected


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

    def __init__(self, settings: HttpSettings) -> None:
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


def test_letters_of_bodies_that_are_no_text_and_how_long_they_wait_for_a_node() -> None:
    assert json.loads(letter(Refused(URL, b"\xff", "r"))) == {
        "reason": "r", "url": URL, "body_base64": "/w==",
    }  # fmt: skip
    given = {"url": URL, "deadletters": "d", "nsqd_http_address": "h:1", "timeout": "60"}
    assert writer._nsq_settings(given, "d").timeout_s == 60
