"""The ``nsqd`` command."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from penstock.core.settings.options import load
from penstock.core.settings.version import version_line

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from penstock.net.loop import Turn
    from penstock.nsq.nsqd.nsqd_options import NsqdOptions
    from penstock.rocketmq.broker.broker_settings import BrokerSettings

logger = logging.getLogger("penstock.nsqd")


def main() -> None:
    """Run nsqd until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    if sys.argv[1:] in (["--version"], ["-version"]):  # quick: without the options' own imports
        print(version_line("nsqd"))
        sys.exit(0)
    from penstock.core.late_import import import_late

    import_late("numpy")  # a third of the start, and no request needs it before messages come
    from penstock.nsq.nsqd.nsqd_options import NsqdOptions

    options = load(NsqdOptions, sys.argv[1:], "nsqd", version_line("nsqd"))
    from penstock.core import logs
    from penstock.net.loop import run

    logs.setup(options.log_prefix, options.log_level, form=options.log_format)
    sys.exit(run(_serve(options)))


async def _serve(options: NsqdOptions) -> int:
    from contextlib import AsyncExitStack

    from penstock.cli.shared.dialects import register_dialects
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import Turn, settle, stop_requested

    register_dialects()
    try:
        is_over = False
        turn: Turn | None = None
        while not is_over:  # a node that is promoted or fenced opens its data path in another role
            turn = Turn(turn)
            async with AsyncExitStack() as running:
                options = await _start(options, running, turn)
                turn.serves()
                settle()
                is_over = await stop_requested(turn.asked)
    except PenstockError as error:
        die(options.log_prefix, str(error))
    logger.info("NSQ: bye")
    return 0


async def _start(options: NsqdOptions, running: AsyncExitStack, turn: Turn) -> NsqdOptions:
    """Open the data path and the ports, in the role that ends with ``turn``; the options with the
    ports that were taken.

    Raises PenstockError with one line for the user.
    """
    from penstock.cli.shared.starting import starting
    from penstock.net.tcp import check_free
    from penstock.node.ports import check_ports
    from penstock.nsq.nsqd.daemon import Nsqd, log_versions
    from penstock.nsq.nsqd.data_path import open_node
    from penstock.nsq.nsqd.known_nodes import known_nodes
    from penstock.nsq.nsqd.tcp.refusal_port import RefusalPort
    from penstock.replication.standby_api import serve
    from penstock.replication.starting import standby_for

    log_versions(options)
    settings = _rocketmq_settings(options)
    with starting("failed to instantiate nsqd"):
        # Before the data path is opened, which may take long: a port that is taken ends the start.
        check_ports(options)
        if settings is not None:
            check_free(options.rocketmq_address)
        standby = await standby_for(options, turn.ask, is_turn=not turn.is_first)
        if standby is not None:
            refusals = RefusalPort(standby.refusal_line)
            running.callback(refusals.close_connections)
            running.push_async_callback(standby.close)
            if options.lookupd_tcp_addresses:
                standby.searches.append(lambda: known_nodes(options, standby.ports))
            await standby.open(serve(standby), refusals)
            return standby.ports.kept(options)
        node = await open_node(options)
        running.push_async_callback(node.close)
        nsqd = await Nsqd.open(node, options, turn.ask)
        running.push_async_callback(nsqd.close)
    if settings is not None:
        from penstock.rocketmq.broker.daemon import RocketBroker

        rocketmq = await RocketBroker.start(settings, node)
        running.push_async_callback(rocketmq.close)
    # Last: RocketMQ's broker keeps messages that no channel holds, so nothing may be deleted before
    # it is there.
    node.start()
    return nsqd.ports.kept(options)


def _rocketmq_settings(options: NsqdOptions) -> BrokerSettings | None:
    """The settings of RocketMQ's port, whose code is loaded when the flags ask for it."""
    if not options.rocketmq_address:
        return None
    from penstock.cli.shared.rocketmq_port import rocketmq_settings

    return rocketmq_settings(options)


if __name__ == "__main__":
    main()
