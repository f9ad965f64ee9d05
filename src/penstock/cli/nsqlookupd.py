"""The ``nsqlookupd`` command."""

from __future__ import annotations

import sys

from penstock.core.settings.options import load
from penstock.core.settings.version import version_line
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions


def main() -> None:
    """Run nsqlookupd until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    options = load(LookupdOptions, sys.argv[1:], "nsqlookupd", version_line("nsqlookupd"))
    # The daemon's modules are imported only now, so that --version and --help stay quick.
    from penstock.core import logs
    from penstock.net.loop import run

    logs.setup(options.log_prefix, options.log_level, form=options.log_format)
    sys.exit(run(_serve(options)))


async def _serve(options: LookupdOptions) -> int:
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import stop_requested
    from penstock.nsq.nsqlookupd.daemon import Nsqlookupd

    try:
        daemon = await Nsqlookupd.start(options)
    except PenstockError as error:
        die(options.log_prefix, f"failed to instantiate nsqlookupd - {error}")
    await stop_requested()
    await daemon.close()
    return 0


if __name__ == "__main__":
    main()
