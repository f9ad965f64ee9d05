"""Commands that show and change the access rules.

Java's command that shows the accounts shows their secrets as well, and 4.9.8 has it no more; ours
shows accounts without secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ConfigError, StorageError
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.broker.acl.check import Acl
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.protocol.ids import Host
    from penstock.rocketmq.remoting import Connection

_TEXTS: Final = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "defaultTopicPerm",
    "defaultGroupPerm",
)
_LISTS: Final = ("topicPerms", "groupPerms")

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True, eq=False)
class AclCommands:
    """Commands about the rules of ``acl``; refused where that is None."""

    settings: BrokerSettings
    acl: Acl | None
    address: Host

    @answers(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
    def put_account(self, connection: Connection, request: Command) -> Command:
        """Make or change an account."""
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        acl = self._acl(failed)
        fields = request.ext or {}
        values: dict[str, Any] = {name: fields[name] for name in _TEXTS if name in fields}
        values["admin"] = request.boolean("admin")
        for name in _LISTS:
            if request.optional(name) is not None:
                values[name] = _split(request.text(name))
        with _refusing(failed):
            acl.files.put_account(values)
        return _changed(acl, connection, request, f"the account {request.text('accessKey')!r}")

    @answers(RequestCode.DELETE_ACL_CONFIG)
    def delete_account(self, connection: Connection, request: Command) -> Command:
        """Forget an account."""
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        acl = self._acl(failed)
        access_key = request.text("accessKey")
        with _refusing(failed):
            is_deleted = acl.files.delete_account(access_key)
        if not is_deleted:
            remark = (
                f"The accesskey[{access_key[:100]}] corresponding to accessConfig has been deleted"
            )
            raise RefusedError(failed, f"{remark} failed.")
        return _changed(acl, connection, request, f"the account {access_key!r}, deleted")

    @answers(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
    def set_trusted(self, connection: Connection, request: Command) -> Command:
        """Replace the addresses from which everything is allowed."""
        failed = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        acl = self._acl(failed)
        addresses = _split(request.text("globalWhiteAddrs"))
        with _refusing(failed):
            acl.files.set_trusted(addresses, request.optional("aclFileFullPath"))
        return _changed(acl, connection, request, "the trusted addresses")

    @answers(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    def versions(self, connection: Connection, request: Command) -> Command:
        """The versions of the rules: the number of changes made by commands, in all and by file."""
        acl = self._acl(ResponseCode.SYSTEM_ERROR)
        found = acl.files.versions()
        return request.answer(
            ext={
                "version": fastjson.dumps(found[acl.files.main]).decode(),
                "allAclFileVersion": fastjson.dumps(found).decode(),
                "brokerName": self.settings.broker_name,
                "brokerAddr": str(self.address),
                "clusterName": self.settings.broker_cluster_name,
            }
        )

    @answers(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
    def accounts(self, connection: Connection, request: Command) -> Command:
        """The accounts and the trusted addresses of all files."""
        acl = self._acl(ResponseCode.SYSTEM_ERROR)
        with _refusing(ResponseCode.SYSTEM_ERROR):
            found, trusted = acl.files.shown()
        return request.answer(
            body=fastjson.dumps({"globalWhiteAddrs": trusted, "plainAccessConfigs": found})
        )

    def _acl(self, failed: ResponseCode) -> Acl:
        if self.acl is None:
            raise RefusedError(failed, "there are no access rules: aclEnable is false")
        return self.acl


@contextmanager
def _refusing(failed: ResponseCode) -> Iterator[None]:
    """Turn errors of the files into refusals of the command, with this code."""
    try:
        yield
    except (ConfigError, StorageError) as error:
        raise RefusedError(failed, str(error)) from None


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _changed(acl: Acl, connection: Connection, request: Command, what: str) -> Command:
    acl.reload()
    logger.info("%s changed the access rules: %s", connection.address, what)
    return request.answer()
