"""The ``mqadmin`` command: RocketMQ's administration tool."""

from __future__ import annotations

import sys


def main() -> None:
    """Run one sub-command; the exit code is upstream's."""
    from penstock.rocketmq.mqadmin.program import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
