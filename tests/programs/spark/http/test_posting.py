"""Posting to a real HTTP server that fails when it is told to."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from penstock.core.units import SECOND
from penstock.spark.errors import SinkError
from penstock.spark.http import posting
from penstock.spark.http.http_settings import HttpSettings
from penstock.spark.http.posting import Outage, Poster, Refused
from penstock.testing.clock import FakeClock
from tests.programs.spark.http.endpoint import Endpoint
from tools.harness.ports import unused_address


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(posting, "PAUSE_FIRST_NS", SECOND // 1000)
    monkeypatch.setattr(posting, "PAUSE_MAX_NS", SECOND // 100)
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def post(url: str, *bodies: str, **options: str) -> list[Refused]:
    with Poster(HttpSettings.parse({"url": url, "requestTimeout": "60", **options})) as poster:
        return list(poster.post_all((url, body.encode()) for body in bodies))


def test_what_may_pass_is_tried_again(endpoint: Endpoint) -> None:
    assert post(endpoint.url, "one", "500 2", "429 1", "408 1", **{"header.X-Key": "k"}) == []
    assert endpoint.tries == {"one": 1, "500 2": 3, "429 1": 2, "408 1": 2}
    assert {headers["X-Key"] for headers in endpoint.headers} == {"k"}
    assert {headers["Content-Type"] for headers in endpoint.headers} == {"application/octet-stream"}


def test_a_content_type_and_a_user_are_sent_once_and_told_to_nobody_else(
    endpoint: Endpoint,
) -> None:
    url = endpoint.url.replace("//", "//u:p@")
    (refused,) = post(url, "one", "400 9", **{"header.content-type": "text/plain"})
    assert refused.url == endpoint.url.replace("//", "//u:***@")
    assert {headers["Authorization"] for headers in endpoint.headers} == {"Basic dTpw"}
    assert {headers["Content-Type"] for headers in endpoint.headers} == {"text/plain"}
    post(url, "two", **{"header.authorization": "Bearer x"})
    assert endpoint.headers[-1]["authorization"] == "Bearer x"


def test_what_is_refused_is_told_in_order(endpoint: Endpoint) -> None:
    assert post(endpoint.url, "one", "400 9", "503 9", "302 9") == [
        Refused(endpoint.url, b"400 9", "status 400"),
        Refused(endpoint.url, b"302 9", "status 302"),
    ]
    assert endpoint.tries == {"one": 1, "400 9": 1, "503 9": 10, "302 9": 1}


def test_an_outage_is_waited_for_however_many_tries_it_takes(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(posting, "_SAY_AFTER_NS", 0)
    bodies = ["one", "500 40", "429 40", "two"]
    assert post(endpoint.url, *bodies, concurrency="1") == []
    assert endpoint.tries == {"one": 1, "500 40": 41, "429 40": 41, "two": 1}
    origin = endpoint.url.removesuffix("/events")
    first, *_, last = caplog.messages
    said = rf"{origin} has taken no body for \d s: status 500; \d rows wait, the next try is in 0 s"
    assert re.fullmatch(said, first)
    assert re.fullmatch(rf"{origin} takes bodies again, after \d+ s", last)


def test_an_endpoint_that_starts_late_gets_every_body_and_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = unused_address()
    endpoints: list[Endpoint] = []

    def wait(poster: Poster, outage: posting.Outage) -> None:
        if outage.wait_s and not endpoints:
            endpoints.append(Endpoint(int(address.rpartition(":")[2])))
        whole(poster, outage)

    whole = Poster._wait_for
    monkeypatch.setattr(Poster, "_wait_for", wait)
    assert post(f"http://{address}/", "one", "two", concurrency="1") == []
    (endpoint,) = endpoints
    endpoint.close()
    assert endpoint.tries == {"one": 1, "two": 1}


def test_all_requests_wait_as_long_as_the_endpoint_says(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.retry_after = "7"
    clock = FakeClock()
    waited: list[float] = []

    class Ending(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout:
                waited.append(timeout)
                clock.advance(int(timeout * SECOND))
            return False

    monkeypatch.setattr(posting, "Outage", partial(Outage, clock))
    monkeypatch.setattr(posting, "SYSTEM_CLOCK", clock)
    with Poster(HttpSettings.parse({"url": endpoint.url, "concurrency": "1"})) as poster:
        poster._ending = Ending()
        assert list(poster.post_all([(endpoint.url, b"503 2"), (endpoint.url, b"x")])) == []
    assert waited == [7.0, 7.0]
    assert endpoint.tries == {"503 2": 3, "x": 1}


def test_the_end_of_a_task_ends_the_wait(endpoint: Endpoint) -> None:
    endpoint.retry_after = "3000"
    rows = [(endpoint.url, b"503 9"), (endpoint.url, b"400 1")]
    with Poster(HttpSettings.parse({"url": endpoint.url, "concurrency": "2"})) as poster:
        pending = poster._pool.submit(lambda: list(poster.post_all(rows)))
        while not endpoint.tries.get("503 9"):
            time.sleep(0.01)
    with pytest.raises(SinkError, match="the task ended"):
        pending.result(60)


def test_tries_that_are_used_up_end_the_query_and_are_no_refusal(endpoint: Endpoint) -> None:
    with pytest.raises(SinkError) as failed:
        post(endpoint.url, "one", "503 9", retries="1", deadLetters="t", nsqd_http_address="h:1")
    assert str(failed.value) == (
        f"{endpoint.url} takes no body: status 503 (tried 2 times, option retries); the batch "
        "comes again when the query is started again"
    )


def test_an_answer_that_is_longer_than_all_we_would_read_counts_by_its_status(
    endpoint: Endpoint,
) -> None:
    endpoint.answer_bytes = (1 << 20) + 1
    assert post(endpoint.url, "one", "two", concurrency="1") == []
    assert endpoint.tries == {"one": 1, "two": 1}
    (refused,) = post(endpoint.url, "400 9")
    assert refused.reason == "status 400"


def test_as_many_requests_at_once_as_the_option_says(endpoint: Endpoint) -> None:
    endpoint.gate = threading.Barrier(3)  # opens only when three requests wait
    assert post(endpoint.url, *["together"] * 3, concurrency="3") == []


def test_nobody_answers() -> None:
    with pytest.raises(SinkError, match=r"takes no body: connection refused \(tried 1 time, opt"):
        post(f"http://{unused_address()}/", "x", retries="0")


def test_a_row_whose_url_cannot_be_asked_is_refused_at_once_and_the_others_go(
    endpoint: Endpoint,
) -> None:
    rows = [("nowhere", b"a"), (f"{endpoint.url}?q=b c", b"b"), (endpoint.url, b"c")]
    with Poster(HttpSettings()) as poster:
        refused = list(poster.post_all(rows))
    assert [(each.body, each.reason) for each in refused] == [
        (b"a", "url must be http:// or https:// and a host, not 'nowhere'"),
        (b"b", f"url must have spaces and control characters as %XX: {rows[1][0]!r}"),
    ]
    assert endpoint.tries == {"c": 1}
