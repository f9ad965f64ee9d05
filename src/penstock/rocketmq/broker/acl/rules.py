"""Permissions of ``plain_acl.yml``: accounts, what they may do, trusted addresses.

Values, without I/O. Words stand for permissions: ``PUB``, ``SUB``, ``PUB|SUB``, ``DENY``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from reprlib import repr as shortened
from typing import Any, Final

from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.acl.address_patterns import AddressPattern
from penstock.rocketmq.broker.names import NOT_FOR_CLIENTS, TRACE_TOPIC, is_group, retry_topic

TRUSTED: Final = "globalWhiteRemoteAddresses"
ACCOUNTS: Final = "accounts"
KEY_LENGTH_MIN: Final = 7
"""The least length of access keys and secret keys."""
TRUE_WORDS: Final = ("true", "yes", "on")


class Permission(IntFlag):
    """Permissions for a topic; for a group there is only ``SUB``."""

    DENY = 0
    PUB = 1
    SUB = 2

    @classmethod
    def parse(cls, text: str) -> Permission:
        """From ``PUB|SUB`` and the like. Raises ConfigError."""
        found = cls.DENY
        for word in text.split("|"):
            permission = cls.__members__.get(word.strip())
            if permission is None:
                raise ConfigError(
                    f"{shortened(text)} is not a permission; there are DENY, PUB, SUB and PUB|SUB"
                )
            found |= permission
        return found


@dataclass(slots=True)
class Account:
    """One account. ``permissions`` are by topic; those of a group stand at its retry topic."""

    access_key: str
    secret_key: str = field(repr=False)
    trusted: AddressPattern
    is_admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    permissions: dict[str, Permission] = field(default_factory=dict)

    def may(self, resource: str, permission: Permission) -> bool:
        """True if it may do so with a topic, or a group by its retry topic.

        System topics in which messages of others wait must be named: no default opens them.
        """
        if resource == TRACE_TOPIC and permission & Permission.PUB:
            return True  # every client may publish traces of what it does
        default = self.default_group if is_group(resource) else self.default_topic
        if resource in NOT_FOR_CLIENTS:
            default = Permission.DENY
        return bool(permission & self.permissions.get(resource, default))

    @classmethod
    def parse(cls, value: Any) -> Account:
        """From an element of ``accounts``. Raises ConfigError."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"an account must have an accessKey, {shortened(value)} has none")
        access_key = _text(value, "accessKey")
        secret_key = _text(value, "secretKey")
        if min(len(access_key), len(secret_key)) < KEY_LENGTH_MIN:
            raise ConfigError(
                f"account {shortened(access_key)}: accessKey and secretKey must be "
                f"there, with at least {KEY_LENGTH_MIN} characters"
            )
        try:
            return cls(
                access_key,
                secret_key,
                AddressPattern(_text(value, "whiteRemoteAddress")),
                _text(value, "admin").lower() in TRUE_WORDS,
                Permission.parse(_text(value, "defaultTopicPerm") or "DENY"),
                Permission.parse(_text(value, "defaultGroupPerm") or "DENY"),
                {
                    **{retry_topic(group): p for group, p in _permissions(value, "groupPerms")},
                    **dict(_permissions(value, "topicPerms")),
                },
            )
        except ConfigError as error:
            raise ConfigError(f"account {shortened(access_key)}: {error}") from None


@dataclass(slots=True)
class Rules:
    """All accounts by access key, and the addresses that need none."""

    accounts: dict[str, Account] = field(default_factory=dict)
    trusted: list[AddressPattern] = field(default_factory=list)

    def trusts(self, ip: str) -> bool:
        """True if everything is allowed to requests from this address."""
        return any(pattern.matches(ip) for pattern in self.trusted)

    def add(self, value: Any) -> list[str]:
        """Take over what a file says; access keys that were known already are returned, and keep
        what they had. Raises ConfigError, and nothing has changed then.
        """
        if value is None or value == "":
            return []
        if not isinstance(value, Mapping):
            raise ConfigError(f"there must be {TRUSTED} and {ACCOUNTS}")
        trusted = [AddressPattern(text) for text in texts(value, TRUSTED) if text]
        accounts = [Account.parse(each) for each in elements(value, ACCOUNTS)]
        self.trusted += trusted
        repeated = []
        for account in accounts:
            if account.access_key in self.accounts:
                repeated.append(account.access_key)
            else:
                self.accounts[account.access_key] = account
        return repeated


def elements(value: Mapping[str, Any], name: str) -> list[Any]:
    """A list of a file, empty when it is not there. Raises ConfigError."""
    found = value.get(name) or []
    if not isinstance(found, list):
        raise ConfigError(f"{name} must be a list")
    return found


def texts(value: Mapping[str, Any], name: str) -> list[str]:
    """A list of a file with each element as text, empty when it is missing. Raises ConfigError."""
    return ["" if each is None else str(each) for each in elements(value, name)]


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if isinstance(found, list | Mapping):
        raise ConfigError(f"{name} must be a single value")
    return "" if found is None else str(found).strip()


def _permissions(value: Mapping[str, Any], name: str) -> Iterable[tuple[str, Permission]]:
    for text in texts(value, name):
        resource, equals, word = text.partition("=")
        if not equals or not resource.strip():
            raise ConfigError(f"{name}: {shortened(text)} is not of the form name=permission")
        yield resource.strip(), Permission.parse(word)
