"""Errors of a node's log in words, and statuses of pipelines as they are taken and refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.log_api import errors
from penstock.log_api.pipeline_status import PipelineStatus


def test_errors_name_the_node_and_what_is_wrong() -> None:
    assert str(errors.LogError("n:1", 500, "INTERNAL_ERROR")) == "n:1: 500 INTERNAL_ERROR"
    assert str(errors.TlsNeeded("n:1", 4152)) == "n:1: 403 TLS_REQUIRED"
    assert str(errors.GroupInUse("n:1", "q", 2.6)) == "n:1: 409 GROUP_IN_USE by q, 3 s ago"
    assert str(errors.TopicNotFound("t", "n:1")) == "n:1 has no topic 't'"
    outside = errors.OffsetOutOfRange("t", "n:1", 9, 2, 7)
    assert str(outside) == "offset 9 of topic 't' on n:1 is outside 2..7"
    unreachable = errors.TlsFailed("n:1", "t", "no certificate")
    assert str(unreachable) == "n:1 cannot be reached for topic 't': no certificate"


def test_each_is_an_error_of_a_node() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    others = {each.__name__ for each in kinds if not issubclass(each, errors.NodeError)}
    assert others == {"PenstockError"}


# --- Statuses of pipelines, as they are taken and refused ----------------------------------------


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
