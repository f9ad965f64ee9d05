"""Sub-commands for name servers: their settings, stored values, brokers' permission to write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin import name_servers
from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands import topics
from penstock.rocketmq.mqadmin.commands.brokers import CONFIG
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions

Change = Callable[[AdminClient, str, str], Awaitable[int]]
"""A change of a broker's permission at a name server; the result is the number of topics."""


async def update_kv_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Store a value."""
    await topics.put_value(admin, given.text("namespace"), given.text("key"), given.text("value"))
    out.say("create or update kv config to namespace success.\n")


async def delete_kv_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Forget a value."""
    await topics.delete_value(admin, given.text("namespace"), given.text("key"))
    out.say("delete kv config from namespace success.\n")


async def wipe_write_perm(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Take the topics of a broker out of what producers may write."""
    await _set_perm(admin, given, "wipe", name_servers.wipe_write_perm, out)


async def add_write_perm(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Let producers write to the topics of a broker again."""
    await _set_perm(admin, given, "add", name_servers.add_write_perm, out)


async def _set_perm(
    admin: Admin, given: ParsedOptions, verb: str, change: Change, out: Output
) -> None:
    broker = given.text("brokerName")
    for address in admin.name_servers:
        told = f"{verb} write perm of broker[{broker}] in name server[{address}]"
        try:
            changed = await change(admin, address, broker)
        except PenstockError as error:
            out.say(f"{told} Failed\n{error}\n", nameServer=address, error=str(error))
        else:
            out.say(f"{told} OK, {changed}\n", nameServer=address, topics=changed)


async def get_namesrv_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The settings of each name server."""
    rule = "=" * 12
    for address in admin.name_servers:
        found = await name_servers.name_server_config(admin, address)
        out.text(f"{rule}{address}{rule}\n")
        for name in sorted(found):
            out.text(CONFIG % (name, found[name]))
        out.fact(address, found)


async def update_namesrv_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Change a setting of all name servers."""
    key, value = given.text("key"), given.text("value")
    for address in admin.name_servers:
        await name_servers.set_name_server_config(admin, address, {key: value})
    servers = f"[{', '.join(admin.name_servers)}]" if "namesrvAddr" in given else ""
    out.say(
        f"update name server config success!{servers}\n{key} : {value}\n",
        nameServers=admin.name_servers,
        key=key,
        value=value,
    )
