from __future__ import annotations

import inspect

import pytest

from penstock.node.dialect import Dialect, LogView
from penstock.nsq.nsqd.http.log_views import NsqView
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.store.log_view import RocketView


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
