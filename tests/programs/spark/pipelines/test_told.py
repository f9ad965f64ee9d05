"""The cases of `spark/pipelines/test_told.py` that need a port or a process."""

from __future__ import annotations

import pytest

from penstock.spark.pipelines.spec import Source
from penstock.spark.pipelines.told import about
from tests.unit.spark.pipelines.test_pipeline import spec
from tools.harness.fake_log_server import FakeLogServer


@pytest.mark.parametrize("topic", ["t", "*"])
def test_nodes_that_nsqlookupd_knows(server: FakeLogServer, topic: str) -> None:
    server.queue("t")
    server.producers = [server.address]
    options = {"topic": topic, "lookupd_http_address": server.address}
    assert list(about(spec(Source("nsq", options))).nodes()) == [server.address]
