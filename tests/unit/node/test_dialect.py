from __future__ import annotations

import inspect

import pytest

from penstock.node.dialect import Dialect, LogView, StagingError
from penstock.node.http.log_views import NsqView
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.log_view import RocketView


@pytest.mark.parametrize(
    ("protocol", "implementation"),
    [(LogView, NsqView), (LogView, RocketView), (Dialect, RocketBroker)],
)
def test_each_dialect_offers_what_the_others_ask_for(protocol: type, implementation: type) -> None:
    wanted = {name: value for name, value in vars(protocol).items()
              if inspect.isfunction(value) and not name.startswith("_")}  # fmt: skip
    assert wanted
    for name, value in wanted.items():
        offered = inspect.signature(getattr(implementation, name)).parameters
        assert list(offered) == list(inspect.signature(value).parameters), name


def test_a_refused_chunk_says_why_as_far_as_there_is_more_to_say() -> None:
    refused = StagingError("MSG_TOO_BIG", "message 3 has 9 bytes")
    assert (refused.code, refused.text) == ("MSG_TOO_BIG", "message 3 has 9 bytes")
    assert str(refused) == "MSG_TOO_BIG: message 3 has 9 bytes"
    assert str(StagingError("INVALID_TOPIC")) == "INVALID_TOPIC"
