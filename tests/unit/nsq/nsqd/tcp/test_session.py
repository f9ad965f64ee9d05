from __future__ import annotations

import pytest

from penstock.broker.channels.consumer import Locality
from penstock.nsq.nsqd.tcp.session import TOPOLOGY_EXPERIMENT, locality
from penstock.nsq.protocol.identify import Identity
from tests.programs.nsq.nsqd.conftest import options


@pytest.mark.parametrize(
    ("zone", "region", "own_zone", "own_region", "expected"),
    [
        ("z", "r", "z", "r", Locality.ZONE),
        ("z", "other", "z", "r", Locality.ZONE),
        ("other", "r", "z", "r", Locality.REGION),
        ("other", "other", "z", "r", Locality.ANYWHERE),
        ("", "", "z", "r", Locality.ANYWHERE),
        ("", "", "", "", Locality.ANYWHERE),
        ("", "r", "", "r", Locality.REGION),
    ],
)
def test_localities(
    zone: str, region: str, own_zone: str, own_region: str, expected: Locality
) -> None:
    given = options("", topology_zone=own_zone, topology_region=own_region)
    identity = Identity("", "", 0, 0, 0, 0, topology_zone=zone, topology_region=region)
    assert locality(identity, given) is Locality.ANYWHERE
    given.enable_experiment = (TOPOLOGY_EXPERIMENT,)
    assert locality(identity, given) is expected
