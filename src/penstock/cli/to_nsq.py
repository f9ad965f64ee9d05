"""The ``to_nsq`` command."""

from __future__ import annotations

from penstock.nsq.tools.entry import enter


def main() -> None:
    """Run to_nsq until it is done or asked to end."""
    enter("to_nsq", "penstock.nsq.tools.to_nsq")


if __name__ == "__main__":
    main()
