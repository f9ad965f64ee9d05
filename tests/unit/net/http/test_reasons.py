"""The reason phrases are Go's with every Python."""

from __future__ import annotations

import pytest

from penstock.net.http.reasons import REASONS


@pytest.mark.parametrize(
    ("status", "phrase"),
    [
        (413, "Request Entity Too Large"),
        (414, "Request URI Too Long"),
        (416, "Requested Range Not Satisfiable"),
        (422, "Unprocessable Entity"),
    ],
)
def test_phrases(status: int, phrase: str) -> None:
    assert REASONS[status] == phrase
