"""Clients in a forked process, which has its parent's connections.

Two processes that use one would send halves of commands into each other's, and each take the
other's answers. So a child closes its parent's connections at once, without a word to the node; in
the parent they go on.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """Something that a fork leaves to the parent."""

    def leave_to_parent(self) -> None:
        """Let go of what only the parent may use. Called in the child."""
        ...


_inherited: Final[WeakSet[Inherited]] = WeakSet()


def watch(client: Inherited) -> None:
    """Have it told in each process that is forked from this one."""
    _inherited.add(client)


def _tell() -> None:
    for client in list(_inherited):
        client.leave_to_parent()


os.register_at_fork(after_in_child=_tell)
