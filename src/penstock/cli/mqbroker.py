"""The `mqbroker` command: RocketMQ's broker, with NSQ's ports beside it where they are wanted."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.nsq.nsqd.options import NsqdOptions
    from penstock.rocketmq.broker.settings import BrokerSettings

PREFIX: Final = "[mqbroker] "


def main() -> None:
    """Runs the broker until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    parser = argparse.ArgumentParser(prog="mqbroker", description="RocketMQ's broker")
    parser.add_argument("-n", "--namesrvAddr", metavar="HOST:PORT;...", help="name servers")
    parser.add_argument("-c", "--configFile", metavar="FILE", help="properties file")
    parser.add_argument("-p", "--printConfigItem", action="store_true", help="print all properties")
    parser.add_argument(
        "-m", "--printImportantConfig", action="store_true", help="print the important properties"
    )
    parser.add_argument("--log-level", default="info", help="debug, info, warn, error or fatal")
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


def nsqd_options(settings: BrokerSettings, log_level: int) -> NsqdOptions:
    """The nsqd whose topics the broker has; its ports are closed unless they are wanted."""
    from penstock.core.units import MILLISECOND
    from penstock.nsq.nsqd.options import NsqdOptions

    return NsqdOptions(
        log_prefix=PREFIX,
        log_level=log_level,
        data_path=settings.store_path_root_dir,
        tcp_address=settings.nsq_tcp_address,
        http_address=settings.nsq_http_address,
        https_address="",
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
    companion = RocketCompanion(settings)
    try:
        OsDisk().make_directory(settings.store_path_root_dir)
        nsqd = await Nsqd.start(nsqd_options(settings, log_level), companions=(companion,))
    except PenstockError as error:
        die(PREFIX, str(error))
    assert companion.broker is not None
    await companion.broker.node.registered()  # who waits for the line may ask name servers next
    print(_success(settings, companion.broker.address), flush=True)
    calm_garbage_collector()
    await stop_requested()
    await nsqd.close()
    return 0


def _success(settings: BrokerSettings, address: str) -> str:
    """The line that Java's broker prints, for those who wait for it."""
    tip = f"The broker[{settings.broker_name}, {address}] boot success. serializeType=JSON"
    servers = settings.namesrv_addr
    return f"{tip} and name server is {servers}" if servers else tip


if __name__ == "__main__":
    main()
