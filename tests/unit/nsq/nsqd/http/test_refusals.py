"""The answers to publishes that are refused."""

from __future__ import annotations

import pytest

from penstock.broker.publish.bounds import TopicFullError
from penstock.core.errors import (
    DiskFullError,
    ExitingError,
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from penstock.nsq.nsqd.http.refusals import refusal


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ExitingError(), "EXITING"),
        (TopicFullError("full"), "TOPIC_FULL"),
        (DiskFullError("full"), "DISK_FULL"),
        (TooManyFilesError("all open"), "TOO_MANY_OPEN_FILES"),
        (ReadOnlyError("a sync failed"), "DISK_FAILED"),
        (StorageError("bad"), "DISK_FAILED"),
    ],
)
def test_each_reason_has_a_code_of_its_own(error: StorageError, code: str) -> None:
    answer = refusal(error)
    assert (answer.status, answer.content) == (503, {"message": code})
