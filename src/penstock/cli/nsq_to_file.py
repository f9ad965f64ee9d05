"""The ``nsq_to_file`` command."""

from __future__ import annotations

from penstock.nsq.tools.entry import enter


def main() -> None:
    """Run nsq_to_file until it is done or asked to end."""
    enter("nsq_to_file", "penstock.nsq.tools.to_file")


if __name__ == "__main__":
    main()
