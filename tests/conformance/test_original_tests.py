"""Every test of Go's nsqd has its counterpart here."""

from __future__ import annotations

import pytest

from tools.pages.references import missing

from .original_tests import ALL, BEHAVIOUR, HTTP, LACKED_BY_GO, PROTOCOL


@pytest.mark.parametrize("name", ALL)
def test_a_counterpart_exists(name: str) -> None:
    assert ALL[name]
    assert missing(ALL[name]) == []


def test_no_name_stands_twice() -> None:
    assert len(ALL) == sum(map(len, (PROTOCOL, HTTP, BEHAVIOUR, LACKED_BY_GO)))


def test_a_reference_to_nothing_is_found() -> None:
    nothing = ["tcp.jsonl:no-such-case", "conformance/test_nsqd.py::test_none", "none.py::test_x"]
    assert missing([*nothing, "tcp.jsonl:pub-ok"]) == nothing
