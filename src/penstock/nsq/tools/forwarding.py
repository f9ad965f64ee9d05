"""The common parts of nsq_to_http and nsq_to_nsq: the choice of a host, and timing reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import Clock
from penstock.core.settings.options import option
from penstock.nsq.client.hosts import MODES, Hosts, hosts_of
from penstock.nsq.tools.errors import say
from penstock.nsq.tools.timings import Timings

ROUND_ROBIN, _, EPSILON_GREEDY = MODES


def mode_option() -> Any:
    """The declaration of --mode."""
    return option(
        "hostpool",
        "the upstream request mode options: round-robin, hostpool (default), epsilon-greedy",
    )


def upstream_hosts(
    mode: str, addresses: Sequence[str], clock: Clock, chance: Chance | None = None
) -> Hosts:
    """The choice among the addresses. Upstream counts up before it looks, so its round robin begins
    with the second one.
    """
    first = 1 if mode == ROUND_ROBIN else 0
    return hosts_of(mode, addresses, clock, chance or SystemChance(), first)


class Report:
    """Lines about the time that forwarding took: ``of`` an address, where there are several, and
    of ``all`` together. A line for every ``every`` messages, none for 0.
    """

    def __init__(self, addresses: Sequence[str], every: int) -> None:
        each = every if len(addresses) > 1 else 0
        self.of = {address: Timings(f"[{address}]:", each, say) for address in addresses}
        self.all = Timings("[aggregate]:", every, say)
