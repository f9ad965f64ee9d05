"""The ``nsqadmin`` command."""

from __future__ import annotations

import sys

from penstock.admin.admin_options import AdminOptions
from penstock.core.settings.options import load
from penstock.core.settings.version import version_line


def main() -> None:
    """Run nsqadmin until SIGINT or SIGTERM; exit code 1 when it cannot start."""
    options = load(AdminOptions, sys.argv[1:], "nsqadmin", version_line("nsqadmin"))
    # The daemon's modules are imported only now, so that --version and --help stay quick.
    from penstock.core import logs
    from penstock.net.loop import run

    logs.setup(options.log_prefix, options.log_level, form=options.log_format)
    sys.exit(run(_serve(options)))


async def _serve(options: AdminOptions) -> int:
    from penstock.admin.daemon import Nsqadmin
    from penstock.core.errors import PenstockError
    from penstock.core.logs import die
    from penstock.net.loop import settle, stop_requested

    try:
        admin = await Nsqadmin.start(options)
    except PenstockError as error:
        die(options.log_prefix, f"failed to instantiate nsqadmin - {error}")
    settle()
    await stop_requested()
    await admin.close()
    return 0


if __name__ == "__main__":
    main()
