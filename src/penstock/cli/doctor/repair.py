"""Repairs of a data path that does not run: what a start would do, and accepting damage."""

from __future__ import annotations

from penstock.core.errors import PenstockError, StorageError
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store


def repair(path: str, *, accept_damage: bool) -> None:
    """Open each topic as a start does, which repairs what can be repaired, and close it.

    With ``accept_damage``, all damage counts as accepted afterwards. Raises PenstockError.
    """
    try:
        store = Store(OsDisk(), path, LogOptions())
    except StorageError as error:
        raise PenstockError(f"{path} cannot be repaired: {error}") from error
    try:
        for topic, number in store.queues():
            log, journal, _ = store.open_queue(topic, number, 0)
            if accept_damage:
                log.damage.accept(log.start_offset)
            journal.close()
            log.close()
    except StorageError as error:
        raise PenstockError(f"{path} cannot be repaired: {error}") from error
    finally:
        store.close()
