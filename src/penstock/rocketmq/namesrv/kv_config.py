"""Values that operators store in the name server, by namespace and key, kept in a JSON file."""

from __future__ import annotations

import json
import os
from typing import Final

from penstock.core.errors import ConfigError, StorageError
from penstock.rocketmq.protocol import fastjson
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import remove_temporaries

ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"
ENTRIES_MAX: Final = 100_000


class KvConfig:
    """The table; every change is written down before it is acknowledged."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Load the file. Raises ConfigError when it is damaged, StorageError when it cannot be
        read.
        """
        self._disk = disk
        self._path = path
        remove_temporaries(disk, os.path.dirname(path) or ".", os.path.basename(path))
        self._table = _read(disk, path)

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All values of a namespace; None when there is no such namespace."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Store a value. Raises StorageError, and nothing has changed then."""
        if sum(map(len, self._table.values())) >= ENTRIES_MAX and self.get(namespace, key) is None:
            raise StorageError(f"the name server keeps at most {ENTRIES_MAX} values")
        table = {name: dict(values) for name, values in self._table.items()}
        table.setdefault(namespace, {})[key] = value
        self._write(table)

    def delete(self, namespace: str, key: str) -> None:
        """Drop a value; it need not be there. Raises StorageError, and nothing has changed then."""
        if self.get(namespace, key) is not None:
            table = {name: dict(values) for name, values in self._table.items()}
            del table[namespace][key]
            self._write(table)

    def _write(self, table: dict[str, dict[str, str]]) -> None:
        self._disk.make_directory(os.path.dirname(self._path) or ".")
        self._disk.replace_file(self._path, fastjson.dumps({"configTable": table}))
        self._table = table


def _read(disk: Disk, path: str) -> dict[str, dict[str, str]]:
    data = disk.read_file(path)
    if data is None:
        return {}
    try:
        table = json.loads(data)["configTable"]
        return {
            str(name): {str(key): str(value) for key, value in values.items()}
            for name, values in table.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not a table of values: {error}. Put back a good copy, or "
            "delete it to begin without values"
        ) from error
