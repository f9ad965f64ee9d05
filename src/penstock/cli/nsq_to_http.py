"""The ``nsq_to_http`` command."""

from __future__ import annotations

from penstock.nsq.tools.entry import enter


def main() -> None:
    """Run nsq_to_http until it is done or asked to end."""
    enter("nsq_to_http", "penstock.nsq.tools.to_http")


if __name__ == "__main__":
    main()
