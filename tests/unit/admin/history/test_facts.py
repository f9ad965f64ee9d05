from __future__ import annotations

import numpy as np

from penstock.admin.history.facts import FACTS, Placed, facts_of
from tests.unit.admin.conftest import channel, topic
from tests.unit.admin.history.test_history import sample


def test_facts_over_nodes() -> None:
    first = sample(topic("t", channel("c", client_count=2), channel("d", paused=True)))
    second = sample(topic("t", channel("c", client_count=1), channel("e"), paused=True))
    # rows: 0 is t, 1 c, 2 d, 3 e
    facts = facts_of([
        Placed(first, np.array([0, 1, 2]), np.array([0, 0])),
        Placed(second, np.array([0, 1, 3]), np.array([0, 0])),
    ], np.array([1, 2, 3, 4]))  # fmt: skip
    assert dict(zip(FACTS, facts.tolist(), strict=True)) == {
        "clients": [3, 3, 0, 0], "paused": [1, 0, 1, 0], "channels": [3, 0, 0, 0],
        "waiting": [10, 2, 3, 4],
    }  # fmt: skip


def test_what_has_no_room_has_no_facts() -> None:
    told = sample(topic("t", channel("c", client_count=2)))
    facts = facts_of([Placed(told, np.array([0, -1]), np.array([0]))], np.array([5]))
    assert facts.tolist() == [[0], [0], [0], [5]]
    assert facts_of([], np.empty(0)).shape == (len(FACTS), 0)
