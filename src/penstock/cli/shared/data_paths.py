"""Files of a node in its data path: the marks of one, and which of its files are the node's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from penstock.node.metadata import FILE_NAME as NSQD_DAT
from penstock.nsq.nsqd.http.staged_parts import FOLDER as STAGED
from penstock.nsq.takeover.diskqueue import find_queues
from penstock.nsq.takeover.importer import IMPORTED
from penstock.replication.copy import ASIDE, TABLES
from penstock.replication.state import FILE_NAME as REPLICATION
from penstock.rocketmq.broker.state.files import TOPICS as TOPIC_TABLE
from penstock.rocketmq.broker.store.serials import FILE as SERIALS
from penstock.storage.epochs import EPOCHS_FILE
from penstock.storage.log import DOOMED
from penstock.storage.store import TOPICS
from penstock.storage.taken_ids import IDS_FILE

BESIDE_TOPICS: Final = (NSQD_DAT, IDS_FILE, EPOCHS_FILE, SERIALS, TABLES, STAGED)
"""The files of a data path that refer to its topics: a backup reads them before these."""
NO_DATA_PATH: Final = "not a data path: it has no file of nsqd or mqbroker"
_MARKS: Final = frozenset({NSQD_DAT, IDS_FILE, SERIALS, REPLICATION})
_OWN: Final = frozenset({*BESIDE_TOPICS, TOPICS, REPLICATION, ASIDE})
_OF_GO: Final = "*.diskqueue.*.dat"


def is_data_path(path: str) -> bool:
    """True if a node, ours or Go's, has left a file there that no other program writes.

    Raises OSError if the folder, or the one of its topics or tables, cannot be read.
    """
    names = os.listdir(path)
    if _MARKS.intersection(names) or find_queues(names):
        return True
    if TOPICS in names and any(map(_is_queue, _listed(os.path.join(path, TOPICS)))):
        return True
    return TABLES in names and TOPIC_TABLE in _listed(os.path.join(path, TABLES))


def own_files(names: Iterable[str]) -> dict[str, str]:
    """Select the names in a data path that are a node's, each with what names it to a shell.

    What else is in the folder is not ours. Go's queues, which may be many, share a pattern.
    """
    names = list(names)
    of_go = {name: _OF_GO for queue in find_queues(names) for name in queue.names()}
    own = {name: name for name in names if name in _OWN or name.startswith(IMPORTED)}
    return own | of_go


def _is_queue(name: str) -> bool:
    """True for the folder of a queue, ``orders@0``, also of one that is about to go."""
    _, at, number = name.removesuffix(DOOMED).rpartition("@")
    return bool(at) and number.isdecimal()


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except NotADirectoryError:
        return []
