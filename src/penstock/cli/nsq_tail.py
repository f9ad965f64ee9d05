"""The ``nsq_tail`` command."""

from __future__ import annotations

from penstock.nsq.tools.entry import enter


def main() -> None:
    """Run nsq_tail until it is done or asked to end."""
    enter("nsq_tail", "penstock.nsq.tools.tail")


if __name__ == "__main__":
    main()
