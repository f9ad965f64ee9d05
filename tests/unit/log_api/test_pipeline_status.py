"""Statuses of pipelines, as they are taken and refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.log_api.pipeline_status import PipelineStatus

LEAST = {"id": "q", "name": "n", "state": "running"}


def test_little_is_enough() -> None:
    found = msgspec.convert(LEAST, PipelineStatus)
    assert (found.batch, found.groups, found.error) == (-1, [], "")


@pytest.mark.parametrize(
    "changes",
    [{"id": ""}, {"name": "a\nb"}, {"name": "x" * 257}, {"state": "dead"}, {"rows_read": -1},
     {"batch": -2}, {"read_per_s": -1}, {"lag": 1 << 63}, {"sql": "x" * 16_385},
     {"groups": [["t"]]}, {"groups": [["t", "g"]] * 1001}, {"error": "x" * 4097}],
)  # fmt: skip
def test_what_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(LEAST | changes, PipelineStatus)
