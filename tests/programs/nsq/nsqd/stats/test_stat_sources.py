from __future__ import annotations

from penstock.nsq.nsqd.stats.stat_sources import StatSources
from tests.programs.nsq.nsqd.conftest import Running


async def test_sources_follow_the_nsqd(nsqd: Running) -> None:
    own = nsqd.nsqd
    sources = StatSources(own.node, own.options, own.sessions, own.staged_parts, own.pipelines,
                          own.auth_servers)  # fmt: skip
    assert not sources.sessions
    await nsqd.consumer("t")
    assert len(sources.sessions) == 1
    assert (await nsqd.json("/stats?format=json"))["health"] == sources.node.health
