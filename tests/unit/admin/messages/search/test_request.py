from __future__ import annotations

import pytest

from penstock.admin.messages.search.request import Room, WalkBody, condition
from penstock.net.http.server.api import ApiError


def test_one_more_than_there_is_room_for_is_refused() -> None:
    room = Room(2, "TOO_MANY")
    with room.taken(), room.taken(), pytest.raises(ApiError, match="TOO_MANY") as refused:  # noqa: SIM117
        with room.taken():
            pass
    assert refused.value.status == 503


def test_room_is_given_back_after_an_error() -> None:
    room = Room(1, "TOO_MANY")
    for _ in range(2):
        with pytest.raises(KeyError), room.taken():
            raise KeyError
    with room.taken():
        pass


def test_all_is_no_condition() -> None:
    assert condition(WalkBody("t", kind="all")) is None
    with pytest.raises(ApiError, match="INVALID_ARG_KIND"):
        condition(WalkBody("t", kind="some"))
