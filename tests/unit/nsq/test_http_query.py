"""What all who ask over HTTP share."""

from __future__ import annotations

from penstock.nsq.http_query import status_text


def test_a_status_with_and_without_a_name() -> None:
    assert status_text(404) == "404 Not Found"
    assert status_text(599) == "599"
