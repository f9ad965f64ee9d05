"""The check that each request passes when access rules are in force (RocketMQ spec 1.8).

A request from a trusted address is let through. Any other has an access key and a signature made
with its secret key, and needs the permissions of its account.
"""

from __future__ import annotations

import hmac
import logging
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.core.errors import PenstockError
from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.broker.acl.rules import Account, Permission
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.names import RETRY_PREFIX, is_group
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.signing import ACCESS_KEY, SIGNATURE, signature

if TYPE_CHECKING:
    from penstock.rocketmq.broker.acl.files import AclFiles
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

WATCH_S: Final = 1.0
"""The interval at which the files are checked for changes."""
_SHOWN: Final = 100
"""Characters of a key that nobody knows, in the refusal."""
_MARK: Final = "_UNIQUE_KEY_QUERY"

logger = logging.getLogger("penstock.mqbroker")


class Acl:
    """The check of requests by the rules of ``files``, which are read again when they change."""

    def __init__(self, files: AclFiles) -> None:
        """Read the rules. Raises ConfigError, StorageError."""
        self.files = files
        self._contents = files.contents()
        self.rules = files.rules(self._contents)
        self._problem = ""
        self._watch = Periodic("access rules", WATCH_S, self.reload)

    def start(self) -> None:
        self._watch.start()

    async def close(self) -> None:
        await self._watch.close()

    def reload(self) -> None:
        """Take over the files when they changed; when they make no sense the old rules stay."""
        try:
            contents = self.files.contents()
            if contents == self._contents:
                return
            # Before they are read: files that make no sense are logged once, not every second.
            self._contents = contents
            self.rules = self.files.rules(contents)
        except PenstockError as error:
            if str(error) != self._problem:
                logger.error("the access rules stay as they were - %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        logger.info(
            "access rules: %d accounts, %d patterns of trusted addresses",
            len(self.rules.accounts),
            len(self.rules.trusted),
        )

    def check(self, store: MessageStore, connection: Connection, request: Command) -> None:
        """Raise RefusedError unless the request is allowed, BodyError if it is malformed, and
        StorageError if the message that it is about cannot be read.
        """
        rules = self.rules
        address = _ip(connection.address)
        if rules.trusts(address):
            return
        access_key = request.optional(ACCESS_KEY)
        if access_key is None:
            _refuse("No accessKey is configured")
        account = rules.accounts.get(access_key)
        if account is None:
            _refuse(f"No acl config for {access_key[:_SHOWN]}")
        if account.trusted.matches(address):
            return
        if not is_signed(request, account.secret_key):
            _refuse(f"Check signature failed for accessKey={access_key}")
        _check_permissions(store, account, request)

    def may_publish(self, address: str, access_key: str, topic: str) -> bool:
        """True if a client that was let in before may publish to a topic, by the present rules."""
        ip = _ip(address)
        if self.rules.trusts(ip):
            return True
        account = self.rules.accounts.get(access_key)
        if account is None:
            return False
        is_free = account.trusted.matches(ip) or (account.is_admin and not account.permissions)
        return is_free or account.may(topic, Permission.PUB)


def _ip(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def is_signed(request: Command, secret_key: str) -> bool:
    """True if the signature is right. Java's client signs the mark of a search for a unique key,
    though Java's broker does not count it, nor do older clients: both are right.
    """
    given = (request.optional(SIGNATURE) or "").encode("utf-8", "replace")
    # In constant time, so that nobody finds a signature byte by byte.
    if hmac.compare_digest(signature(request, secret_key), given):
        return True
    if request.optional(_MARK) is None:
        return False
    return hmac.compare_digest(signature(request, secret_key, _MARK), given)


def _check_permissions(store: MessageStore, account: Account, request: Command) -> None:
    rule = needs.of(request.code)
    if rule.is_admins and not account.is_admin:
        _refuse(
            f"Need admin permission for request code={request.code:d}, but accessKey="
            f"{account.access_key} is not"
        )
    if account.is_admin and not account.permissions:
        return
    for resource, permission in rule.read(store, request):
        if not account.may(resource, permission):
            kind = "group" if is_group(resource) else "topic"
            _refuse(f"No default permission for {kind}:{resource.removeprefix(RETRY_PREFIX)}")


def _refuse(remark: str) -> NoReturn:
    raise RefusedError(ResponseCode.NO_PERMISSION, remark)
