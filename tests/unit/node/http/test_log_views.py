from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.broker.topic import Topic
from penstock.net.http.server.api import ApiError, Query
from penstock.node.dialect import LogView
from penstock.node.http.log_views import NSQ_VIEW, queue_named, view_for

if TYPE_CHECKING:
    from penstock.node.dialect import Dialect

OTHER = cast(LogView, SimpleNamespace(dialect="other", queue_count=lambda topic: 12))
TOPIC = cast(Topic, None)


def view(query: bytes, *views: LogView) -> LogView:
    dialects = [SimpleNamespace(log_view=view) for view in views]
    return view_for(cast("Sequence[Dialect]", dialects), Query.parse(query))


def test_a_request_gets_the_view_that_it_asks_for() -> None:
    assert view(b"", OTHER) is NSQ_VIEW
    assert view(b"dialect=nsq", OTHER) is NSQ_VIEW
    assert view(b"dialect=other", OTHER) is OTHER


def test_a_dialect_that_nobody_speaks_is_refused() -> None:
    with pytest.raises(ApiError, match="DIALECT_NOT_SPOKEN") as refused:
        view(b"dialect=another", OTHER)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("0", 0),
        ("11", 11),
        ("12", None),
        ("011", None),
        ("-1", None),
        ("x", None),
        ("9" * 30, None),
    ],
)
def test_queues_are_named_by_their_numbers(name: str, queue: int | None) -> None:
    assert queue_named(OTHER, TOPIC, name) == queue
    assert queue_named(NSQ_VIEW, TOPIC, name) == (0 if name == "0" else None)
