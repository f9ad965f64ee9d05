"""How a promoted node tells the primary before, until it has heard."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from penstock.replication import successor
from penstock.replication.peer import Fence, Peer, PeerError

FENCE = Fence("h", 2, "b:1", {"t": (7, 2)})


class Other:
    """A node whose answers are given."""

    def __init__(self, *errors: PeerError | None) -> None:
        self.errors = list(errors)
        self.told: list[Fence] = []

    async def post(self, target: str, body: bytes, seconds: float) -> bytes:
        assert target == "/replication/fence"
        self.told.append(msgspec.json.decode(body, type=Fence))
        if (error := self.errors.pop(0)) is not None:
            raise error
        return b"{}"


def peer(*errors: PeerError | None) -> Any:
    return cast(Peer, Other(*errors))


async def test_it_is_told_again_while_it_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(successor, "TELL_S", 0.0)
    heard: list[bool] = []
    other = peer(PeerError("away"), PeerError("refuses", "503"), None)
    await successor.tell_until_heard(other, FENCE, lambda: heard.append(True))
    assert other.told == [FENCE] * 3
    assert heard == [True]


async def test_a_node_of_another_history_is_told_once() -> None:
    heard: list[bool] = []
    other = peer(PeerError("refuses", "OTHER_HISTORY"))
    await successor.tell_until_heard(other, FENCE, lambda: heard.append(True))
    assert heard == [True]


async def test_a_refusal_is_an_error_and_silence_is_none() -> None:
    assert not await successor.tell(peer(PeerError("away")), FENCE)
    with pytest.raises(PeerError):
        await successor.tell(peer(PeerError("refuses", "LOWER_EPOCH")), FENCE)


def test_messages_are_shown_by_topic_the_most_first() -> None:
    assert successor.shown({"a": 1, "b": 5}) == "5 of b, 1 of a"
    many = successor.shown({f"t{number}": number + 1 for number in range(12)})
    assert many.endswith("3 of t2 and of 2 more topics")
