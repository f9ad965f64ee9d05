from __future__ import annotations

import json
from itertools import combinations
from typing import Any

from tools.monitoring.dashboard import dashboard

PANELS: list[dict[str, Any]] = json.loads(dashboard())["panels"]


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
               for at, size in (("x", "w"), ("y", "h")))  # fmt: skip


def test_no_panel_covers_another_or_leaves_the_grid() -> None:
    for one, other in combinations(PANELS, 2):
        assert not _overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])
    assert max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in PANELS) == 24


def test_panels_have_numbers_and_titles_of_their_own() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_every_chart_says_what_it_shows() -> None:
    for panel in PANELS:
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["targets"], panel["title"]
            assert all(target["legendFormat"] for target in panel["targets"])
