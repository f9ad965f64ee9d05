"""Sub-commands about access rules. Secrets are sent where they are set, and never shown."""

from __future__ import annotations

from typing import Any, Final

from penstock.rocketmq.client.admin import acl
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.java_text import to_second, word
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol import fastjson

VERSIONS: Final = Table(
    "versions",
    "%-16s  %-22s  %-22s  %-20s  %-22s  %-22s",
    "cluster broker address file version updated",
    (
        "#Cluster Name",
        "#Broker Name",
        "#Broker Addr",
        "#AclFilePath",
        "#AclConfigVersionNum",
        "#AclLastUpdateTime",
    ),
)
_ACCOUNT: Final = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
_SECRET: Final = "secretKey"


async def update_acl_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Make an account, or change it."""
    fields = {name: given.text(name) for name in _ACCOUNT if name in given}
    fields["admin"] = word(given.is_true("admin"))
    for address in await _brokers(admin, given):
        await acl.put_account(admin, address, fields)
        out.say(f"create or update plain access config to {address} success.\n", broker=address)
    shown = {name: text for name, text in fields.items() if name != _SECRET}
    pairs = ", ".join(f"{name}={text}" for name, text in shown.items())
    out.text(f"PlainAccessConfig [{pairs}]")
    out.fact("account", shown)


async def delete_acl_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Delete an account."""
    key = given.text("accessKey")
    for address in await _brokers(admin, given):
        await acl.delete_account(admin, address, key)
        out.say(f"delete plain access config account from {address} success.\n", broker=address)
    out.text(f"account's accesskey is:{key}")
    out.fact("accessKey", key)


async def update_global_white_addr(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Set the addresses from which everything is allowed."""
    trusted, file = given.text("globalWhiteRemoteAddresses"), given.text("aclFileFullPath")
    for address in await _brokers(admin, given):
        await acl.set_trusted(admin, address, trusted, file)
        text = f"update global white remote addresses to {address} success.\n"
        out.say(text, broker=address)


async def _brokers(admin: Admin, given: ParsedOptions) -> list[str]:
    if "brokerAddr" in given:
        return [given.text("brokerAddr")]
    return (await admin.clusters()).addresses(given.text("clusterName"))


async def cluster_acl_config_version(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The number of changes of the rules by commands, and the time of the last."""
    if "brokerAddr" in given:
        await _show_versions(admin, given.text("brokerAddr"), out)
        out.text("get broker's plain access config version success.\n")
        return
    masters = (await admin.clusters()).masters(given.text("clusterName"))
    out.head(VERSIONS)
    for address in masters:
        await _show_versions(admin, address, out)
    out.text("get cluster's plain access config version success.\n")


async def _show_versions(admin: Admin, address: str, out: Output) -> None:
    answer = await acl.acl_version(admin, address)
    files: dict[str, Any] = fastjson.loads(answer.text("allAclFileVersion").encode())
    for file, version in files.items():
        out.row(
            VERSIONS,
            answer.text("clusterName"),
            answer.text("brokerName"),
            answer.text("brokerAddr"),
            file,
            str(version["counter"]),
            to_second(int(version["timestamp"])),
        )


async def get_acl_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The accounts and the trusted addresses."""
    masters = (
        [given.text("brokerAddr")]
        if "brokerAddr" in given
        else (await admin.clusters()).masters(given.text("clusterName"))
    )
    for address in masters:
        found = await acl.acl_config(admin, address)
        trusted = found.get("globalWhiteAddrs") or []
        accounts = [_without_secret(each) for each in found.get("plainAccessConfigs") or ()]
        out.text(f"\nglobalWhiteRemoteAddresses: [{', '.join(map(str, trusted))}]\n\naccounts:\n")
        for each in accounts:
            out.text("".join(f"  {name:<18}: {_shown(each.get(name))}\n" for name in _ACCOUNT))
            out.text("\n")
        out.fact(address, {"globalWhiteAddrs": trusted, "accounts": accounts})


def _without_secret(account: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in account.items() if name != _SECRET}


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else word(value)
