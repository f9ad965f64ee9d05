"""Name servers: their settings, stored values, and brokers' permission to be written."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.settings import java_properties
from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.protocol.codes import RequestCode


async def value_of(client: AdminClient, namespace: str, key: str) -> str:
    """A stored value, of the first name server that answers. Raises Refused where it has none."""
    fields = {"namespace": namespace, "key": key}
    return (await client.ask_name_server(RequestCode.GET_KV_CONFIG, fields)).text("value")


async def put_value(
    client: AdminClient, address: str, namespace: str, key: str, value: str
) -> None:
    """Store a value at a name server."""
    fields = {"namespace": namespace, "key": key, "value": value}
    await client.ask(address, RequestCode.PUT_KV_CONFIG, fields)


async def delete_value(client: AdminClient, address: str, namespace: str, key: str) -> None:
    """Forget a value at a name server."""
    await client.ask(address, RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key})


async def wipe_write_perm(client: AdminClient, address: str, broker: str) -> int:
    """Take the topics of a broker out of what producers may write: the number of them."""
    fields = {"brokerName": broker}
    answer = await client.ask(address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields)
    return answer.int32("wipeTopicCount", 0)


async def add_write_perm(client: AdminClient, address: str, broker: str) -> int:
    """Let producers write to the topics of a broker again: the number of them."""
    fields = {"brokerName": broker}
    answer = await client.ask(address, RequestCode.ADD_WRITE_PERM_OF_BROKER, fields)
    return answer.int32("addTopicCount", 0)


async def name_server_config(client: AdminClient, address: str) -> dict[str, str]:
    """The settings of a name server."""
    answer = await client.ask(address, RequestCode.GET_NAMESRV_CONFIG)
    return java_properties.loads(answer.body.decode("utf-8", "replace"))


async def set_name_server_config(
    client: AdminClient, address: str, changed: Mapping[str, str]
) -> None:
    """Change settings of a name server."""
    body = java_properties.dumps(changed).encode()
    await client.ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
