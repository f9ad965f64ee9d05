"""Sub-commands for name servers: their settings, stored values, brokers' permission to write."""

from __future__ import annotations

from penstock.core.errors import PenstockError
from penstock.core.settings import java_properties
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands import topics
from penstock.rocketmq.mqadmin.commands.brokers import CONFIG
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.protocol.codes import RequestCode


async def update_kv_config(admin: Admin, given: Given, out: Output) -> None:
    """Store a value."""
    await topics.put_value(admin, given.text("namespace"), given.text("key"), given.text("value"))
    out.say("create or update kv config to namespace success.\n")


async def delete_kv_config(admin: Admin, given: Given, out: Output) -> None:
    """Forget a value."""
    await topics.delete_value(admin, given.text("namespace"), given.text("key"))
    out.say("delete kv config from namespace success.\n")


async def wipe_write_perm(admin: Admin, given: Given, out: Output) -> None:
    """Take the topics of a broker out of what producers may write."""
    code = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    await _set_perm(admin, given, code, "wipe", "wipeTopicCount", out)


async def add_write_perm(admin: Admin, given: Given, out: Output) -> None:
    """Let producers write to the topics of a broker again."""
    code = RequestCode.ADD_WRITE_PERM_OF_BROKER
    await _set_perm(admin, given, code, "add", "addTopicCount", out)


async def _set_perm(
    admin: Admin, given: Given, code: RequestCode, verb: str, count: str, out: Output
) -> None:
    broker = given.text("brokerName")
    for address in admin.name_servers:
        told = f"{verb} write perm of broker[{broker}] in name server[{address}]"
        try:
            changed = (await admin.ask(address, code, {"brokerName": broker})).int32(count, 0)
        except PenstockError as error:
            out.say(f"{told} Failed\n{error}\n", nameServer=address, error=str(error))
        else:
            out.say(f"{told} OK, {changed}\n", nameServer=address, topics=changed)


async def get_namesrv_config(admin: Admin, given: Given, out: Output) -> None:
    """The settings of each name server."""
    rule = "=" * 12
    for address in admin.name_servers:
        answer = await admin.ask(address, RequestCode.GET_NAMESRV_CONFIG)
        found = java_properties.loads(answer.body.decode("utf-8", "replace"))
        out.text(f"{rule}{address}{rule}\n")
        for name in sorted(found):
            out.text(CONFIG % (name, found[name]))
        out.fact(address, found)


async def update_namesrv_config(admin: Admin, given: Given, out: Output) -> None:
    """Change a setting of all name servers."""
    key, value = given.text("key"), given.text("value")
    body = java_properties.dumps({key: value}).encode()
    for address in admin.name_servers:
        await admin.ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    servers = f"[{', '.join(admin.name_servers)}]" if "namesrvAddr" in given else ""
    out.say(
        f"update name server config success!{servers}\n{key} : {value}\n",
        nameServers=admin.name_servers, key=key, value=value,
    )  # fmt: skip
