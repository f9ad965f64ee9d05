"""The `mqbroker` command: RocketMQ's broker, with NSQ's ports beside it where they are wanted."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.nsq.nsqd.options import NsqdOptions
    from penstock.rocketmq.broker.settings import BrokerSettings

PREFIX: Final = "[mqbroker] "

_log = logging.getLogger("penstock.mqbroker")


def main() -> None:
    """Runs the broker until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    parser = _parser()
    words = parser.parse_args()
    from penstock.core import logs
    from penstock.core.errors import ConfigError
    from penstock.net.loop import run
    from penstock.rocketmq.broker.settings import BrokerSettings

    try:
        level = logs.parse_level(words.log_level)
    except ValueError as error:
        parser.error(str(error))
    logs.setup(PREFIX, level)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mqbroker", description="RocketMQ's broker")
    parser.add_argument(
        "-n", "--namesrvAddr", metavar="HOST:PORT;...",
        help="name servers (default: namesrvAddr of FILE, or $NAMESRV_ADDR)",
    )  # fmt: skip
    parser.add_argument("-c", "--configFile", metavar="FILE", help="properties, as Java's has them")
    parser.add_argument("-p", "--printConfigItem", action="store_true", help="print all properties")
    parser.add_argument(
        "-m", "--printImportantConfig", action="store_true", help="print the important properties"
    )
    parser.add_argument("--log-level", default="info", metavar="LEVEL",
                        help="debug, info (default), warn, error or fatal")  # fmt: skip
    return parser


def nsqd_options(settings: BrokerSettings, log_level: int) -> NsqdOptions:
    """The nsqd whose topics the broker has; its ports are closed unless they are wanted."""
    from penstock.core.units import HOUR, MILLISECOND
    from penstock.nsq.nsqd.options import NsqdOptions

    return NsqdOptions(
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
    )


async def _serve(settings: BrokerSettings, log_level: int) -> int:
    from penstock.cli.dialects import register_dialects
    from penstock.cli.rocketmq_companion import RocketCompanion
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import calm_garbage_collector, stop_requested
    from penstock.nsq.nsqd.daemon import Nsqd
    from penstock.storage.disk import OsDisk

    register_dialects()
    _log.info("%s", _introduction(settings))
    if not (settings.nsq_tcp_address or settings.nsq_http_address):
        # What the nsqd beneath does is news only to those who use it.
        logging.getLogger("penstock.nsqd").setLevel(max(log_level, logging.WARNING))
    companion = RocketCompanion(settings)
    try:
        OsDisk().make_directory(settings.store_path_root_dir)
    except PenstockError as error:
        die(PREFIX, f"cannot make storePathRootDir - {error}")
    try:
        nsqd = await Nsqd.start(nsqd_options(settings, log_level), companions=(companion,))
    except PenstockError as error:
        die(PREFIX, _reason(error, settings))
    assert companion.broker is not None
    await companion.broker.node.registered()  # who waits for the line may ask name servers next
    print(_success(settings, companion.broker.address), flush=True)
    calm_garbage_collector()
    await stop_requested()
    await nsqd.close()
    _log.info("bye")
    return 0


def _introduction(settings: BrokerSettings) -> str:
    """The first line of the log: which program this is, and where it keeps what."""
    from penstock import __version__

    store, durability = settings.store_path_root_dir, settings.durability_level.value
    return (
        f"mqbroker of Penstock {__version__}, as RocketMQ 4.9.8; "
        f"store {store}, durability {durability}"
    )


def _reason(error: BaseException, settings: BrokerSettings) -> str:
    """Why the broker does not start, for those who know nothing of the nsqd beneath."""
    from penstock.core.errors import LockedError

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LockedError):
            return (f"another broker or nsqd uses the store {settings.store_path_root_dir}: stop "
                    "it, or set storePathRootDir")  # fmt: skip
        cause = cause.__cause__
    return str(error).replace("failed to instantiate nsqd", "the broker cannot start")


def _success(settings: BrokerSettings, address: str) -> str:
    """The line that Java's broker prints, for those who wait for it."""
    tip = f"The broker[{settings.broker_name}, {address}] boot success. serializeType=JSON"
    servers = settings.namesrv_addr
    return f"{tip} and name server is {servers}" if servers else tip


if __name__ == "__main__":
    main()
