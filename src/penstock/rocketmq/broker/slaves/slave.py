"""A slave's view of its copy: tables and topics as the master's were when it last answered.

The copy's files are the master's and are read again when they were replaced. One table is written
here too: offsets that consumers commit while the master is away, which last until it tells others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.rocketmq.broker.store import serials

if TYPE_CHECKING:
    from penstock.replication.copied_node import CopiedBroker
    from penstock.rocketmq.broker.controller import Controller


class Slave:
    """The follower of a copy for a broker's controller; ``update`` is called when it has grown."""

    def __init__(self, controller: Controller, copied: CopiedBroker) -> None:
        self._controller = controller
        self._copied = copied
        copied.copy.leaving.append(self._left)

    def _left(self, topic: str) -> None:
        self._controller.store.dropped(topic)

    def update(self) -> None:
        """Show what the copy has got. Raises StorageError."""
        controller, copied = self._controller, self._copied
        changed = copied.copy.changed_files
        if changed:
            self._read_again(changed)
            changed.clear()  # not before: what cannot be read now is read with the next answer
        for topic in copied.grow(controller.store.serials.has):
            controller.store.adopt(topic)
            controller.keys.note(topic.name)

    def _read_again(self, changed: set[str]) -> None:
        controller = self._controller
        version = controller.topics.version.counter
        for name in sorted(changed):
            controller.state.reload(os.path.basename(name))
        if serials.FILE in changed:
            controller.store.serials.reload()
            for topic in self._copied.topics.values():
                controller.store.adopt(topic)
        if controller.topics.version.counter != version:
            controller.name_servers.register()
