"""The ``nsq_to_nsq`` command."""

from __future__ import annotations

from penstock.nsq.tools.entry import enter


def main() -> None:
    """Run nsq_to_nsq until it is done or asked to end."""
    enter("nsq_to_nsq", "penstock.nsq.tools.nsq_to_nsq")


if __name__ == "__main__":
    main()
