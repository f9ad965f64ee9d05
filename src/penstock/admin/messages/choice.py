"""The messages that an action is about, as the body of its request names them."""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from penstock.core.malformed import MALFORMED
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

BodyT = TypeVar("BodyT", bound=msgspec.Struct)

IDS_MAX: Final = 1000
"""Messages that one request may name."""
_ID: Final = re.compile(r"[0-9a-f]{16}")


def read_body(request: Request, kind: type[BodyT]) -> BodyT:
    """The JSON body as a ``kind``; ApiError 400 INVALID_BODY."""
    try:
        return msgspec.json.decode(request.body, type=kind)
    except MALFORMED:
        raise ApiError(400, "INVALID_BODY") from None


def chosen_ids(ids: list[str], is_all: bool) -> list[str]:
    """The ids, each once; none when all are meant.

    ApiError 400: MISSING_IDS, INVALID_IDS, TOO_MANY_IDS, or AMBIGUOUS_IDS for ids and all.
    """
    if is_all:
        if ids:
            raise ApiError(400, "AMBIGUOUS_IDS")
        return []
    if not ids:
        raise ApiError(400, "MISSING_IDS")
    if len(ids) > IDS_MAX:
        raise ApiError(400, "TOO_MANY_IDS")
    if not all(_ID.fullmatch(each) for each in ids):
        raise ApiError(400, "INVALID_IDS")
    return list(dict.fromkeys(ids))
