"""The ``mqnamesrv`` command: RocketMQ's name server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from penstock.cli.flags.java_flags import JavaFlags

if TYPE_CHECKING:
    from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings


def main() -> None:
    """Run the name server until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    parser = flags()
    words = parser.words()
    from penstock.core import logs
    from penstock.core.errors import ConfigError
    from penstock.net.loop import run
    from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings

    prefix = "[mqnamesrv] "
    try:
        form = logs.parse_form(words.log_format)
        logs.setup(prefix, logs.parse_level(words.log_level), form=form)
    except ValueError as error:
        parser.error(str(error))
    try:
        settings = NamesrvSettings.load_file(words.configFile)
    except ConfigError as error:
        logs.die(prefix, str(error))
    if words.configFile:
        settings.config_store_path = os.path.abspath(words.configFile)
    if words.printConfigItem:
        print(settings.as_text(), end="")
        return
    sys.exit(run(_serve(settings, prefix)))


def flags() -> JavaFlags:
    """The command line."""
    return JavaFlags("mqnamesrv", "RocketMQ's name server")


async def _serve(settings: NamesrvSettings, prefix: str) -> int:
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import stop_requested
    from penstock.rocketmq.namesrv.daemon import NameServer

    try:
        server = await NameServer.start(settings)
    except PenstockError as error:
        die(prefix, str(error))
    # Begins as the line of Java's name server, for those who wait for it.
    print(f"The Name Server boot success, port {server.port}", flush=True)
    await stop_requested()
    await server.close()
    return 0


if __name__ == "__main__":
    main()
