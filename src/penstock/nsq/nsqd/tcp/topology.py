"""Topology-aware delivery: how near a consumer is to this nsqd (NSQ spec 3.11)."""

from __future__ import annotations

from typing import Final

from penstock.broker.channels.consumer import Locality
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.protocol.identify import Identity

EXPERIMENT: Final = "topology-aware-consumption"


def locality(identity: Identity, options: NsqdOptions) -> Locality:
    """The proximity of a client: this zone, this region, or any; an empty name is nobody's.

    Without the experiment all consumers are alike.
    """
    if EXPERIMENT in options.enable_experiment:
        if options.topology_zone and identity.topology_zone == options.topology_zone:
            return Locality.ZONE
        if options.topology_region and identity.topology_region == options.topology_region:
            return Locality.REGION
    return Locality.ANYWHERE
