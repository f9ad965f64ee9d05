"""Names are found wherever a handler asks a query for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.net.http.server.v1_api import ApiRouter, Query
from penstock.node.http.api_arguments import number, position
from tests.reference.parameters import read_by

SEVERAL = ("from", "until")


class Api:
    """Handlers that ask in the ways that there are."""

    def plain(self, request: Any) -> Any:
        query = Query.parse(request.query)
        return query.get("format"), query.required("writer"), query.topic_and_channel()

    def through_functions(self, request: Any) -> Any:
        query = Query.parse(request.query)
        return number(query, "limit", 1), position(query, SimpleNamespace(), 0)  # type: ignore[arg-type]

    def in_a_loop(self, request: Any) -> Any:
        return [Query.parse(request.query).get(each) for each in SEVERAL]

    def through_another(self, request: Any) -> Any:
        return self.in_a_loop(request)

    def nothing(self, request: Any) -> Any:
        return request.body.decode("latin-1"), "format"


WANTED = [
    (Api().plain, {"format", "writer", "topic", "channel"}),
    (Api().through_functions, {"limit", "offset", "from", "timestamp_ns", "since"}),
    (Api().in_a_loop, {"from", "until"}),
    (Api().through_another, {"from", "until"}),
    (partial(Api.in_a_loop, Api()), {"from", "until"}),
    (Api().nothing, set()),
]


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions here count as the package's."""
    for function in vars(Api).values():
        if callable(function):
            monkeypatch.setattr(function, "__module__", "penstock.here")


@pytest.mark.parametrize(
    ("handler", "names"), WANTED, ids=lambda each: getattr(each, "__name__", None)
)
def test_names_that_are_read(handler: Callable[..., Any], names: set[str]) -> None:
    assert read_by(handler) == names


def test_a_routers_wrapper_is_looked_through() -> None:
    router = ApiRouter()
    kept = []
    router.add = lambda method, path, answer, *rest, **details: kept.append(answer)  # type: ignore[method-assign]
    router.v1("GET", "/x", Api().in_a_loop)
    assert read_by(kept[0]) == {"from", "until"}
