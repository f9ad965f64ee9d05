"""The ``mqadmin`` command: RocketMQ's administration tool."""

from __future__ import annotations

import sys


def main() -> None:
    """Run one sub-command; the exit code is upstream's."""
    from penstock.cli.shared.pipes import spell_out
    from penstock.net.descriptors import make_output_wait
    from penstock.rocketmq.mqadmin.program import run

    make_output_wait()
    spell_out()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
