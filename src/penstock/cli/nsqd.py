"""The `nsqd` command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.core.options import load
from penstock.nsq.version import version_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.nsq.nsqd.companion import Companion
    from penstock.nsq.nsqd.options import NsqdOptions


def main() -> None:
    """Runs nsqd until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    if sys.argv[1:] in (["--version"], ["-version"]):  # quick: without the options' own imports
        print(version_line("nsqd"))
        sys.exit(0)
    from penstock.nsq.nsqd.options import NsqdOptions

    options = load(NsqdOptions, sys.argv[1:], "nsqd", version_line("nsqd"))
    from penstock.core import logs
    from penstock.net.loop import run

    logs.setup(options.log_prefix, options.log_level)
    sys.exit(run(_serve(options)))


async def _serve(options: NsqdOptions) -> int:
    from penstock.cli.dialects import register_dialects
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import calm_garbage_collector, stop_requested
    from penstock.nsq.nsqd.daemon import Nsqd

    register_dialects()
    try:
        nsqd = await Nsqd.start(options, companions=_companions(options))
    except PenstockError as error:
        die(options.log_prefix, str(error))
    calm_garbage_collector()
    await stop_requested()
    await nsqd.close()
    return 0


def _companions(options: NsqdOptions) -> Sequence[Companion]:
    """Brokers of other dialects, whose code is loaded when the flags ask for them."""
    if not options.rocketmq_address:
        return ()
    from penstock.cli.rocketmq_companion import companions

    return companions(options)


if __name__ == "__main__":
    main()
