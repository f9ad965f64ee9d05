"""The script for each shell, and lines that all of them complete."""

from __future__ import annotations

from functools import cache

from penstock.cli.flags.completion import Shell, script
from penstock.cli.penstock import app

COMPLETED = [
    ("penstock pip", "penstock pipeline"),
    ("penstock top --int", "penstock top --interval"),
    ("nsqd --retention-t", "nsqd --retention-time"),
    ("mqbroker --configF", "mqbroker --configFile"),
    ("mqadmin topicRou", "mqadmin topicRoute"),
    ("mqadmin topicRoute --namesrv", "mqadmin topicRoute --namesrvAddr"),
    ("mqadmin help clusterR", "mqadmin help clusterRT"),
]
"""What is typed before the key for completion, and what stands there behind it."""


@cache
def printed(shell: Shell) -> str:
    """What ``penstock completion`` prints for a shell."""
    return script(app, shell)
