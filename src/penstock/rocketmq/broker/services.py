"""The services of a broker: what goes on beside its requests."""

from __future__ import annotations

from typing import Protocol

from penstock.rocketmq.broker.admin import runtime_info
from penstock.rocketmq.broker.clients import heartbeats, orderly
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.broker.pop.ordered_pops import OLD_SCAN_S
from penstock.rocketmq.broker.pop.pops import COMMIT_S
from penstock.rocketmq.broker.store.retention import HOLD_S
from penstock.rocketmq.broker.transactions.checks import TransactionChecks


class Service(Protocol):
    """A service that the broker starts and closes."""

    def start(self) -> None: ...

    async def close(self) -> None: ...


def services_of(controller: Controller) -> list[Service]:
    """The services, to be started in this order and closed in the opposite one."""
    services = _of_readers(controller)
    if not controller.settings.is_slave:
        services += _of_writers(controller)
    if controller.acl is not None:
        services.append(controller.acl)
    return services


def _of_readers(controller: Controller) -> list[Service]:
    return [
        controller.keys,
        heartbeats.silent_clients(controller),
        orderly.lock_expiry(controller),
        runtime_info.sampling(controller),
    ]


def _of_writers(controller: Controller) -> list[Service]:
    """The services that change topics: a slave gets what they do from its master."""
    pops = controller.pops
    return [
        controller.schedule,
        controller.timers,
        controller.transactions,
        TransactionChecks(controller),
        Periodic("offsets of popping groups", COMMIT_S, pops.commit),
        Periodic("old batches of ordered pops", OLD_SCAN_S, pops.ordered.forget_old),
        Periodic("groups that hold NSQ's topics", HOLD_S, controller.retention.hold),
    ]
