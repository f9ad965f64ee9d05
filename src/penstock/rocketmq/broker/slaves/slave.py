"""A slave's view of its copy: tables and topics as the master's were when it last answered.

The copy's files are the master's and are read again when they were replaced. One table is written
here too: offsets that consumers commit while the master is away, which last until it tells others.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.rocketmq.broker.store import serials

if TYPE_CHECKING:
    from penstock.replication.copied_node import CopiedBroker
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.key_index import KeyIndex
    from penstock.rocketmq.broker.store.message_store import MessageStore


@dataclass(slots=True, eq=False)
class Slave:
    """The follower of a copy for a broker's tables; ``update`` is called when it has grown."""

    topics: TopicTable
    store: MessageStore
    keys: KeyIndex
    files: StateFiles
    name_servers: NameServers
    copied: CopiedBroker

    def update(self) -> None:
        """Show what the copy has got. Raises StorageError."""
        copied = self.copied
        changed = copied.copy.changed_files
        if changed:
            self._read_again(changed)
            changed.clear()  # not before: what cannot be read now is read with the next answer
        for topic in copied.grow(self.store.serials.has):
            self.store.adopt(topic)
            self.keys.note(topic.name)

    def _read_again(self, changed: set[str]) -> None:
        version = self.topics.version.counter
        for name in sorted(changed):
            self.files.reload(os.path.basename(name))
        if serials.FILE in changed:
            self.store.serials.reload()
            for topic in self.copied.topics.values():
                self.store.adopt(topic)
        if self.topics.version.counter != version:
            self.name_servers.register()
