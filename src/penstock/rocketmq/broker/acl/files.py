"""The files with the access rules: ``plain_acl.yml``, and ``acl/*.yml`` beside it.

Everything in them is read as text, so that a key of digits stays what it is. Commands that change
rules rewrite the file: its comments are lost.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.core.clock import Clock
from penstock.core.distribution import pip_install
from penstock.core.errors import ConfigError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.acl.rules import (
    ACCOUNTS,
    TRUE_WORDS,
    TRUSTED,
    Account,
    Rules,
    elements,
)
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import remove_temporaries

MAIN_FILE: Final = "plain_acl.yml"
_MORE: Final = "acl"
_FILE_BYTES_MAX: Final = 1024 * 1024
_TEXT_MAX: Final = 500
_VERSION: Final = "dataVersion"
_SHOWN: Final = ("accessKey", "whiteRemoteAddress", "defaultTopicPerm", "defaultGroupPerm")
_SHOWN_LISTS: Final = ("topicPerms", "groupPerms")

logger = logging.getLogger("penstock.mqbroker")

Contents = Mapping[str, bytes]
"""The bytes of each file, by path."""


class AclFiles:
    """The files in one directory."""

    def __init__(self, disk: Disk, directory: str, clock: Clock) -> None:
        """Raise ConfigError when there is nothing that reads YAML."""
        self.main = f"{directory}/{MAIN_FILE}"
        self._more = f"{directory}/{_MORE}"
        self._disk = disk
        self._clock = clock
        _yaml()
        remove_temporaries(disk, directory, MAIN_FILE)
        remove_temporaries(disk, self._more)

    # --- reading -------------------------------------------------------------------------------

    def contents(self) -> Contents:
        """The files' contents. Raises ConfigError when the main one is missing, StorageError."""
        found: dict[str, bytes] = {}
        names = [name for name in self._disk.list(self._more) if name.endswith((".yml", ".yaml"))]
        for path in (self.main, *(f"{self._more}/{name}" for name in names)):
            data = self._disk.read_file(path)
            if data is not None:
                found[path] = data
        if self.main not in found:
            raise ConfigError(
                f"aclEnable=true: there is no {self.main}, so nobody could do anything; write it"
                " or set aclEnable=false"
            )
        return found

    def rules(self, contents: Contents) -> Rules:
        """The rules of all files; an account counts where it stands first. Raises ConfigError."""
        rules = Rules()
        for path, data in contents.items():
            try:
                repeated = rules.add(_parsed(data))
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}") from None
            for access_key in repeated:
                logger.warning(
                    "%s: the account %s is there twice; the first one counts", path, access_key
                )
        return rules

    def versions(self) -> dict[str, dict[str, int]]:
        """The number of changes made to each file by commands, and the time of the last (ms).

        Raises ConfigError, StorageError.
        """
        return {path: _version(_mapping(data)) for path, data in self.contents().items()}

    def shown(self) -> tuple[list[dict[str, Any]], list[str]]:
        """All accounts but for their secrets, each as it stands first, and the trusted addresses.

        Raises ConfigError, StorageError.
        """
        accounts: dict[str, dict[str, Any]] = {}
        trusted: list[str] = []
        for data in self.contents().values():
            value = _mapping(data)
            trusted += map(str, value.get(TRUSTED) or ())
            for each in elements(value, ACCOUNTS):
                accounts.setdefault(str(each.get("accessKey")), _without_secret(each))
        return list(accounts.values()), trusted

    # --- changing ------------------------------------------------------------------------------

    def put_account(self, values: Mapping[str, Any]) -> None:
        """Make an account, or change what ``values`` say of it.

        Raises ConfigError when that makes no sense, StorageError; nothing has changed then.
        """
        access_key = Account.parse(values).access_key
        contents = self.contents()
        path = self._file_of(contents, access_key) or self.main
        value = _mapping(contents[path])
        accounts = elements(value, ACCOUNTS)
        for account in accounts:
            if account.get("accessKey") == access_key:
                account.update(values)
                break
        else:
            accounts.append(dict(values))
        self._write(contents, path, {**value, ACCOUNTS: accounts})

    def delete_account(self, access_key: str) -> bool:
        """Forget an account; whether it was there. Raises ConfigError, StorageError."""
        contents = self.contents()
        path = self._file_of(contents, access_key)
        if path is None:
            return False
        value = _mapping(contents[path])
        kept = [each for each in elements(value, ACCOUNTS) if each.get("accessKey") != access_key]
        self._write(contents, path, {**value, ACCOUNTS: kept})
        return True

    def set_trusted(self, addresses: Sequence[str], path: str | None) -> None:
        """Replace the trusted addresses of a file, the main one if None.

        Raises ConfigError, also when ``path`` is not one of the files, StorageError.
        """
        contents = self.contents()
        path = path or self.main
        if path not in contents:
            raise ConfigError(f"{path} is not a file of access rules")
        self._write(contents, path, {**_mapping(contents[path]), TRUSTED: list(addresses)})

    def _file_of(self, contents: Contents, access_key: str) -> str | None:
        for path, data in contents.items():
            accounts = elements(_mapping(data), ACCOUNTS)
            if any(Account.parse(each).access_key == access_key for each in accounts):
                return path
        return None

    def _write(self, contents: Contents, path: str, value: dict[str, Any]) -> None:
        version = _version(value)
        version["counter"] += 1
        version["timestamp"] = self._clock.wall_ns() // MILLISECOND
        value = {**value, _VERSION: [version]}
        data = _written(value)
        if not _says(_parsed(data), value, set()):
            raise ConfigError(f"{path} would not read back as what was asked: nothing is changed")
        # The whole is read as the next start would read it, before the file is replaced.
        self.rules({**contents, path: data})
        self._disk.replace_file(path, data)


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"aclEnable=true needs a reader of YAML: {pip_install('acl')}") from None
    return yaml


def _written(value: Any) -> bytes:
    """The content of a file with this value. Raises ConfigError if no file can hold it."""
    yaml = _yaml()
    try:
        text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
        return text.encode()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(" ".join(str(error).split())[:_TEXT_MAX]) from None


def _says(found: Any, wanted: Any, seen: set[tuple[int, int]]) -> bool:
    """True if the parsed file, all of it text, is the value to be written; each pair is compared
    once, since a file may name its parts and repeat them (``&a``, ``*a``).
    """
    pair = id(found), id(wanted)
    if pair in seen:
        return True
    seen.add(pair)
    if isinstance(wanted, dict):
        same = isinstance(found, dict) and found.keys() == wanted.keys()
        return same and all(_says(found[name], each, seen) for name, each in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return same and all(_says(*both, seen) for both in zip(found, wanted, strict=True))
    return bool(found == (str(wanted).lower() if isinstance(wanted, bool) else str(wanted)))


def _parsed(data: bytes) -> Any:
    if len(data) > _FILE_BYTES_MAX:
        raise ConfigError(f"{len(data)} bytes, where {_FILE_BYTES_MAX} are the most")
    yaml = _yaml()
    try:
        return yaml.load(data, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(text[:_TEXT_MAX]) from None


def _without_secret(account: Mapping[str, Any]) -> dict[str, Any]:
    """An account as it is shown: the fields that are known, values as Java's classes have them."""
    shown: dict[str, Any] = {
        name: str(account[name])
        for name in _SHOWN
        if name in account and not isinstance(account[name], list)
    }
    shown["admin"] = str(account.get("admin")).lower() in TRUE_WORDS
    for name in _SHOWN_LISTS:
        if isinstance(account.get(name), list):
            shown[name] = [str(each) for each in account[name]]
    return shown


def _mapping(data: bytes) -> dict[str, Any]:
    value = _parsed(data)
    return value if isinstance(value, dict) else {}


def _version(value: Mapping[str, Any]) -> dict[str, int]:
    versions = value.get(_VERSION)
    first = versions[0] if isinstance(versions, list) and versions else {}
    if not isinstance(first, dict):
        first = {}
    return {name: _number(first.get(name)) for name in ("counter", "timestamp")}


def _number(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
