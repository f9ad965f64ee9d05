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
    facts = facts_of(placed, [], np.array([1, 2, 3, 4, 0.0]), np.array([0, 1, 0, 0, 1.0]), 4)
    assert dict(zip(FACTS, facts.tolist(), strict=True)) == {
        "clients": [3, 3, 0, 0, 3], "paused": [1, 0, 1, 0, 0], "channels": [3, 0, 0, 0, 3],
        "waiting": [10, 2, 3, 4, 0], "partial": [0, 1, 0, 0, 1],
    }  # fmt: skip


def test_what_has_no_room_has_no_facts() -> None:
    told = sample(topic("t", channel("c", client_count=2)))
    facts = facts_of([(told, Places(told, [], [0, -1], []))], [], np.array([5.0]), np.zeros(1))
    assert facts.tolist() == [[0], [0], [0], [5], [0]]
    assert facts_of([], [], np.empty(0), np.empty(0)).shape == (len(FACTS), 0)


def test_channels_of_a_node_that_does_not_answer_wait_without_consumers() -> None:
    last = sample(topic("t", channel("c", client_count=2), channel("d", client_count=2)))
    depths = np.array([1, 7, np.nan])  # nothing waits in d there, so that it is not kept
    facts = facts_of([], [Places(last, [], [0, 1, 2], [])], depths, np.array([1, 1, 0.0]))
    assert dict(zip(FACTS, facts[:, 0].tolist(), strict=True)) == {
        "clients": 0, "paused": 0, "channels": 1, "waiting": 8, "partial": 1,
    }  # fmt: skip


def test_members_of_groups_are_not_those_of_their_topic() -> None:
    groups = [{"group_name": "g", "client_count": 2}, {"group_name": "h"}]
    told = sample(topic("t", consumer_groups=groups))
    facts = facts_of([(told, Places(told, [], [0, 1, 2], []))], [], np.zeros(3), np.zeros(3))
    assert facts[0].tolist()[:2] == [0, 2]
    assert np.isnan(facts[0, 2])
