from __future__ import annotations

import numpy as np

from penstock.admin.history.facts import FACTS, facts_of
from penstock.admin.history.placing import Places
from tests.unit.admin.conftest import channel, topic
from tests.unit.admin.history.test_history import sample


def test_facts_over_nodes() -> None:
    first = sample(topic("t", channel("c", client_count=2), channel("d", paused=True)))
    second = sample(topic("t", channel("c", client_count=1), channel("e"), paused=True))
    # rows: 0 is t, 1 c, 2 d, 3 e
    placed = [(each, Places(each, [], own, [])) for each, own in ((first, [0, 1, 2]),
              (second, [0, 1, 3]))]  # fmt: skip
    facts = facts_of(placed, np.array([1, 2, 3, 4, 0]), 4)
    assert dict(zip(FACTS, facts.tolist(), strict=True)) == {
        "clients": [3, 3, 0, 0, 3], "paused": [1, 0, 1, 0, 0], "channels": [3, 0, 0, 0, 3],
        "waiting": [10, 2, 3, 4, 0],
    }  # fmt: skip


def test_what_has_no_room_has_no_facts() -> None:
    told = sample(topic("t", channel("c", client_count=2)))
    facts = facts_of([(told, Places(told, [], [0, -1], []))], np.array([5]))
    assert facts.tolist() == [[0], [0], [0], [5]]
    assert facts_of([], np.empty(0)).shape == (len(FACTS), 0)
