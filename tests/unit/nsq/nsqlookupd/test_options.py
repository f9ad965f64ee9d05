from __future__ import annotations

import os

from penstock.core.settings.options import load
from penstock.core.units import MINUTE, SECOND
from penstock.nsq.nsqlookupd.options import LookupdOptions


def test_defaults_are_the_originals() -> None:
    options = load(LookupdOptions, [], "nsqlookupd")
    assert options.tcp_address == "0.0.0.0:4160"
    assert options.http_address == "0.0.0.0:4161"
    assert options.broadcast_address == os.uname().nodename
    assert options.inactive_producer_timeout == 5 * MINUTE
    assert options.tombstone_lifetime == 45 * SECOND
    assert options.log_prefix == "[nsqlookupd] "


def test_every_flag_of_the_original_is_taken() -> None:
    flags = ["--tcp-address=a", "-http-address", "b", "--broadcast-address=c", "--verbose"]
    flags += ["--inactive-producer-timeout=3s", "--tombstone-lifetime=1m30s", "--log-level=debug"]
    options = load(LookupdOptions, [*flags, "--log-prefix=x"], "nsqlookupd")
    assert (options.tcp_address, options.http_address) == ("a", "b")
    assert options.tombstone_lifetime == 90 * SECOND
