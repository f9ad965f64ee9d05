"""The answers of HTTP to publishes that are refused."""

from __future__ import annotations

from typing import Final

from penstock.broker.publish.bounds import TopicFullError
from penstock.core.errors import (
    DiskFullError,
    ExitingError,
    LateCopyError,
    NotCopiedError,
    StorageError,
    TooManyFilesError,
)
from penstock.net.http.server.v1_api import ApiError

_REFUSALS: Final[dict[type[StorageError], str]] = {
    ExitingError: "EXITING",
    TopicFullError: "TOPIC_FULL",
    DiskFullError: "DISK_FULL",
    NotCopiedError: "NOT_COPIED",
    LateCopyError: "NOT_COPIED",
    TooManyFilesError: "TOO_MANY_OPEN_FILES",
}
"""Reasons by error; any other StorageError is DISK_FAILED."""


def refusal(error: StorageError) -> ApiError:
    """The answer to a refused publish; Go's nsqd answers 503 EXITING for every reason."""
    return ApiError(503, _REFUSALS.get(type(error), "DISK_FAILED"))
