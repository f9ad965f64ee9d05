"""The entry of the ``penstock`` command: Ctrl-C while it is being loaded ends it without a word."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command and run it; from then on it handles SIGINT itself."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from penstock.cli import penstock

    penstock.main()
