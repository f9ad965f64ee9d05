"""The reason phrases of HTTP's statuses, in Go's words."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

REASONS: Final = {each.value: each.phrase for each in HTTPStatus} | {
    # Python 3.13 renamed these as RFC 9110 does, and Go did not.
    413: "Request Entity Too Large",
    414: "Request URI Too Long",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
}
"""The phrases by status."""
