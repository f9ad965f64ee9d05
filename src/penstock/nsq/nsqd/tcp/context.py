"""The things that all TCP connections of one nsqd share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import lane
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.core.settings.version import NSQ_VERSION
from penstock.nsq.protocol.identify import Features

if TYPE_CHECKING:
    from penstock.net.tls.tls_layer import ServerTls
    from penstock.node.node import Node
    from penstock.nsq.nsqd.nsqd_options import NsqdOptions
    from penstock.nsq.protocol.limits import Limits


@dataclass(frozen=True, slots=True)
class Context:
    """A node, and the options for connections to it with what follows from them."""

    node: Node
    options: NsqdOptions
    limits: Limits
    features: Features
    """Features that a client may ask for with IDENTIFY."""
    tls: ServerTls | None
    publisher: lane.Publisher | None
    """The way of plain publishes, where there is one."""

    @classmethod
    def of(
        cls,
        node: Node,
        options: NsqdOptions,
        tls: ServerTls | None,
        publisher: lane.Publisher | None = None,
    ) -> Context:
        """The context of an nsqd with these options."""
        features = Features(
            NSQ_VERSION,
            tls_v1=tls is not None,
            deflate=options.deflate,
            max_deflate_level=options.max_deflate_level,
            snappy=options.snappy,
            auth_required=bool(options.auth_http_addresses),
            topology_region=options.topology_region,
            topology_zone=options.topology_zone,
        )
        return cls(node, options, options.limits(), features, tls, publisher)

    @property
    def tls_required(self) -> bool:
        """True if clients have to use TLS."""
        return self.options.tls_needed is not TlsRequired.NO
