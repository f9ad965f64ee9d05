from __future__ import annotations

import pytest

from penstock.admin.messages.logs import NODES_MAX, Place, read_text, text_of, time_ns
from penstock.net.http.server.api import ApiError

TWO = [Place("127.0.0.1:4151", 17, 90), Place("[::1]:4151", 0, 1 << 60)]


def test_a_text_leads_there_again() -> None:
    text = text_of("scan", TWO)
    assert text == f"scan:127.0.0.1:4151@17-90,[::1]:4151@0-{1 << 60}"
    assert read_text("scan", text) == {place.node: place for place in TWO}


def test_the_text_of_another_kind_is_none() -> None:
    assert read_text("before", text_of("after", TWO)) is None
    assert read_text("before", "newest") is None


@pytest.mark.parametrize(
    "text",
    ["scan:", "scan:a", "scan:a@1", "scan:a@1-", "scan:a@-1-2", "scan:a@1-2,", "scan:a@1-2\n",
     f"scan:a@{10**19}-1", "scan:" + ",".join(f"a{number}@1-2" for number in range(NODES_MAX + 1))],
)  # fmt: skip
def test_what_leads_nowhere_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="INVALID_ARG_FROM"):
        read_text("scan", text)


def test_times() -> None:
    assert time_ns("time:5") == 5_000_000
    assert time_ns("time:9999999999999") == (1 << 63) - 1
    assert time_ns("5") is time_ns("time:x") is None
