"""The parts of an nsqd that its statistics are made of, in all their forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.node.node import Node
    from penstock.nsq.nsqd.http.staged_parts import StagedParts
    from penstock.nsq.nsqd.nsqd_options import NsqdOptions
    from penstock.nsq.nsqd.stats.pipelines import Pipelines
    from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
    from penstock.nsq.nsqd.tcp.session import Session


@dataclass(frozen=True, slots=True)
class StatSources:
    """The sources of /stats, NSQ's part of /metrics and what statsd gets."""

    node: Node
    options: NsqdOptions
    sessions: Mapping[Session, None]
    staged_parts: StagedParts
    pipelines: Pipelines
    auth_servers: AuthServers | None
    replication: Callable[[], dict[str, Any] | None] = lambda: None
