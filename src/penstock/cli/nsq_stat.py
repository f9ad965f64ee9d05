"""The ``nsq_stat`` command."""

from __future__ import annotations

from penstock.nsq.tools.entry import enter


def main() -> None:
    """Run nsq_stat until it is done or asked to end."""
    enter("nsq_stat", "penstock.nsq.tools.stat")


if __name__ == "__main__":
    main()
