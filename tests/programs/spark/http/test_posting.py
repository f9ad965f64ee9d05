"""Posting to a real HTTP server that fails when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.spark.http import posting
from penstock.spark.http.posting import Poster, Refused
from penstock.spark.http.settings import Settings
from tests.programs.spark.http.endpoint import Endpoint
from tools.harness.ports import unused_address


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(posting, "_PAUSE_FIRST_S", 0.001)
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def post(url: str, *bodies: str, **options: str) -> list[Refused]:
    with Poster(Settings.parse({"url": url, "requestTimeout": "60", **options})) as poster:
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
    assert post(endpoint.url, "one", "400 9", "503 9", "302 9", retries="1") == [
        Refused(endpoint.url, b"400 9", "status 400"),
        Refused(endpoint.url, b"503 9", "status 503 (2 tries)"),
        Refused(endpoint.url, b"302 9", "status 302"),
    ]
    assert endpoint.tries == {"one": 1, "400 9": 1, "503 9": 2, "302 9": 1}


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
    (refused,) = post(f"http://{unused_address()}/", "x", retries="0")
    assert refused.reason == "connection refused (1 tries)"


def test_a_row_whose_url_cannot_be_asked_is_refused_at_once_and_the_others_go(
    endpoint: Endpoint,
) -> None:
    rows = [("nowhere", b"a"), (f"{endpoint.url}?q=b c", b"b"), (endpoint.url, b"c")]
    with Poster(Settings()) as poster:
        refused = list(poster.post_all(rows))
    assert [(each.body, each.reason) for each in refused] == [
        (b"a", "url must be http:// or https:// and a host, not 'nowhere'"),
        (b"b", f"url must have spaces and control characters as %XX: {rows[1][0]!r}"),
    ]
    assert endpoint.tries == {"c": 1}
