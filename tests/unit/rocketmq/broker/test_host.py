from __future__ import annotations

import inspect

from penstock.cli.rocketmq_companion import NsqdHost
from penstock.rocketmq.broker.host import Host

from .conftest import FakeHost


def test_an_nsqd_and_the_tests_offer_what_a_host_must() -> None:
    wanted = {name for name, value in vars(Host).items() if inspect.isfunction(value)}
    wanted = {name for name in wanted if not name.startswith("_")}
    assert {"topic", "publish", "delete_topic"} <= wanted
    for host in (NsqdHost, FakeHost):
        for name in wanted:
            offered = inspect.signature(getattr(host, name)).parameters
            assert list(offered) == list(inspect.signature(getattr(Host, name)).parameters), name
