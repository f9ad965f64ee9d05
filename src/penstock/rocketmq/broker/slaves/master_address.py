"""The address at which a master is copied, asked of the name servers (RocketMQ spec 2.6).

A slave that registers is told it, so that is how it is asked here: on a connection that ends at
once, with which the registration ends too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.broker.registration import Introduction
from penstock.rocketmq.broker.state.topic_table import TopicTable
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.remoting_client import connect, tls_to

if TYPE_CHECKING:
    import ssl

    from penstock.rocketmq.broker.broker_settings import BrokerSettings

ASK_S: Final = 3.0
AGAIN_S: Final = 0.5
HA_ADDRESS: Final = "haServerAddr"

logger = logging.getLogger("penstock.mqbroker")


async def wait_for_master(settings: BrokerSettings) -> str:
    """The address for copies of the master of this broker's name, once a name server knows it.

    Raises ConfigError when the settings of TLS make no sense.
    """
    is_said = False
    while True:
        found = await master(settings)
        if found:
            return found
        if not is_said:
            logger.warning(
                "no name server of %s knows a master of %s that can be copied: waiting for it",
                settings.namesrv_addr,
                settings.broker_name,
            )
        is_said = True
        await asyncio.sleep(AGAIN_S)


async def master(settings: BrokerSettings) -> str:
    """The address, as the first name server says that knows it; empty if none does.

    Raises ConfigError when the settings of TLS make no sense.
    """
    tls = None
    if settings.use_tls:
        tls = tls_to(
            settings.tls_client_trust_cert_path, auth_server=settings.tls_client_auth_server
        )
    for address in settings.name_servers():
        try:
            found = await _ask(settings, address, tls)
        except PenstockError as error:
            logger.info("name server %s: %s", address, error)
            continue
        if found:
            return found
    return ""


async def _ask(settings: BrokerSettings, address: str, tls: ssl.SSLContext | None) -> str:
    connection = await connect(address, ASK_S, tls=tls)
    try:
        introduction = Introduction(settings, TopicTable(), settings.listen_port)
        fields, body = introduction.request()
        code = RequestCode.REGISTER_BROKER
        answer = await connection.invoke(code, fields, body, seconds=ASK_S)
        # Taken back at once: this broker has no topics yet, and no client must find it.
        await connection.invoke(RequestCode.UNREGISTER_BROKER, introduction.who(), seconds=ASK_S)
    finally:
        connection.close()
    if answer.code != ResponseCode.SUCCESS:
        raise PenstockError(f"it answered {answer.code}: {answer.remark}")
    return answer.optional(HA_ADDRESS) or ""
