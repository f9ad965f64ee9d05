"""The ``mqbroker`` command: RocketMQ's broker, with NSQ's ports beside it where they are wanted."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Final

from penstock.cli.flags.java_flags import JavaFlags, introduction

if TYPE_CHECKING:
    from penstock.node.node_options import NodeOptions
    from penstock.rocketmq.broker.broker_settings import BrokerSettings

PREFIX: Final = "[mqbroker] "

logger = logging.getLogger("penstock.mqbroker")


def main() -> None:
    """Run the broker until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    parser = flags()
    words = parser.words()
    from penstock.core import logs
    from penstock.core.late_import import import_late

    import_late("numpy")  # as in nsqd
    from penstock.core.errors import ConfigError
    from penstock.net.loop import run
    from penstock.rocketmq.broker.broker_settings import BrokerSettings

    try:
        level, form = logs.parse_level(words.log_level), logs.parse_form(words.log_format)
    except ValueError as error:
        parser.error(str(error))
    logs.setup(PREFIX, level, form=form)
    try:
        settings = BrokerSettings.load_file(words.configFile)
        if words.namesrvAddr is not None:
            settings.update({"namesrvAddr": words.namesrvAddr})
    except ConfigError as error:
        logs.die(PREFIX, str(error))
    if words.configFile:
        settings.broker_config_path = os.path.abspath(words.configFile)
    if words.printConfigItem or words.printImportantConfig:
        print(settings.as_text() if words.printConfigItem else settings.important_text(), end="")
        return
    sys.exit(run(_serve(settings, level)))


def flags() -> JavaFlags:
    """The command line."""
    parser = JavaFlags("mqbroker", "RocketMQ's broker")
    parser.add_argument(
        "-n",
        "--namesrvAddr",
        metavar="HOST:PORT;...",
        help="name servers (default: namesrvAddr of FILE, or $NAMESRV_ADDR)",
    )
    parser.add_argument(
        "-m", "--printImportantConfig", action="store_true", help="print the important properties"
    )
    return parser


def node_options(settings: BrokerSettings, log_level: int, follow: str = "") -> NodeOptions:
    """The options of the broker's node, or of an nsqd where NSQ's ports over it are wanted;
    ``follow`` is where a slave's master is copied.
    """
    from penstock.core.units import HOUR, MILLISECOND
    from penstock.node.node_options import NodeOptions

    kind = NodeOptions
    if settings.nsq_tcp_address or settings.nsq_http_address:
        from penstock.nsq.nsqd.nsqd_options import NsqdOptions

        kind = NsqdOptions
    return kind(
        log_prefix=PREFIX,
        log_level=log_level,
        data_path=settings.store_path_root_dir,
        tcp_address=settings.nsq_tcp_address,
        http_address=settings.nsq_http_address,
        https_address="",
        group_retention=settings.nsq_group_retention * HOUR,
        metrics=True,
        durability=settings.durability_level,
        sync_timeout=max(1, settings.flush_interval_commit_log) * MILLISECOND,
        broadcast_address=settings.broker_ip1,
        tls_cert=settings.tls_cert_path if settings.tls_ha_enable else "",
        tls_key=settings.tls_key_path if settings.tls_ha_enable else "",
        tls_root_ca_file=settings.tls_ha_trust_cert_path,
        follow=follow,
        replication_secret_file=settings.replication_secret_file,
        needs_lease=settings.needs_lease,
        promote_max_lag=settings.max_lag,
        promote_before_hook=settings.promote_before_hook,
        promote_after_hook=settings.promote_after_hook,
    )


async def _serve(settings: BrokerSettings, log_level: int) -> int:
    from contextlib import AsyncExitStack
    from functools import partial

    from penstock.cli.shared.broker_opening import Opening
    from penstock.cli.shared.dialects import register_dialects
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import Turn, settle, stop_requested
    from penstock.storage.files.disk import OsDisk

    register_dialects()
    make_options = partial(node_options, settings, log_level)
    logger.info("%s", _introduction(settings))
    try:
        OsDisk().make_directory(settings.checked_store())
    except PenstockError as error:
        die(PREFIX, f"cannot make storePathRootDir - {error}; name a folder that can be made")
    try:
        is_over = False
        turn: Turn | None = None
        while not is_over:  # a broker that is promoted or fenced opens its store in another role
            turn = Turn(turn)
            async with AsyncExitStack() as running:
                opening = Opening(
                    settings, make_options, running, turn.ask, is_turn=not turn.is_first
                )
                broker = await opening.open()
                if broker is not None:
                    await broker.registered()  # who waits for the line may ask name servers next
                    print(_success(settings, broker.address), flush=True)
                turn.serves()
                settle()
                is_over = await stop_requested(turn.asked)
    except PenstockError as error:
        die(PREFIX, _reason(error, settings))
    logger.info("bye")
    return 0


def _introduction(settings: BrokerSettings) -> str:
    """The first line of the log: which program this is, and where it keeps what."""
    store, durability = settings.store_path_root_dir, settings.durability_level.value
    return f"{introduction('mqbroker')}; store {store}, durability {durability}"


def _reason(error: BaseException, settings: BrokerSettings) -> str:
    """The reason why the broker does not start, in terms of its properties."""
    from penstock.core.errors import LockedError

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LockedError):
            return (
                f"another broker or nsqd uses the store {settings.store_path_root_dir}: stop "
                "it, or set storePathRootDir"
            )
        cause = cause.__cause__
    return str(error)


def _success(settings: BrokerSettings, address: str) -> str:
    """The line that Java's broker prints, for those who wait for it."""
    tip = f"The broker[{settings.broker_name}, {address}] boot success. serializeType=JSON"
    servers = settings.namesrv_addr
    return f"{tip} and name server is {servers}" if servers else tip


if __name__ == "__main__":
    main()
