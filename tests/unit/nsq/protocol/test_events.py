"""Events are small and say what they are."""

from __future__ import annotations

import pytest

from penstock.nsq.protocol.events import Failure, Nop, Ready, State


def test_states_have_nsqds_numbers() -> None:
    assert [int(state) for state in State] == [0, 3, 4]


def test_events_take_no_stray_attributes() -> None:
    for event in (Nop(), Ready(1), Failure("E_INVALID", "E_INVALID x", True, "PUB")):
        with pytest.raises(AttributeError):
            event.other = 1  # type: ignore[union-attr]
