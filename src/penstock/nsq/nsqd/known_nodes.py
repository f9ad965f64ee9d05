"""The nsqds that nsqlookupds know, for a copy that looks for its primary."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from penstock.core.settings.version import NSQ_VERSION
from penstock.net.address import join_host_port
from penstock.net.http.client import once as http_client
from penstock.node.ports import Ports
from penstock.nsq.nsqd.lookup import Lookup, identity
from penstock.nsq.nsqd.nsqd_options import NsqdOptions

CONNECT_S: Final = 1.5
"""The time in which an nsqlookupd says where its HTTP is."""
ASK_S: Final = 2.0


async def known_nodes(options: NsqdOptions, ports: Ports) -> list[str]:
    """The HTTP addresses of all nsqds that are registered; none where no nsqlookupd answers.

    nsqlookupd says where its HTTP is to nsqds alone, so this node introduces itself, without a
    topic, for as long as it asks.
    """
    own = identity(
        options,
        options.broadcast_address,
        ports.broadcast_tcp,
        ports.broadcast_http,
        NSQ_VERSION,
    )
    lookup = Lookup(lambda: own, lambda: (), options.max_body_size, 0, 0)
    try:
        lookup.set_addresses(options.lookupd_tcp_addresses)
        async with asyncio.timeout(CONNECT_S):
            while not all(peer.connected for peer in lookup.peers.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        pass
    finally:
        addresses = lookup.http_addresses()
        await lookup.close()
    answers = await asyncio.gather(*(_nodes(each) for each in addresses))
    return list(dict.fromkeys(each for answer in answers for each in answer))


async def _nodes(address: str) -> list[str]:
    try:
        answer = await http_client.request("GET", f"http://{address}/nodes", ASK_S)
        producers: Any = json.loads(answer.body)["producers"]
        return [
            join_host_port(str(each["broadcast_address"]), int(each["http_port"]))
            for each in producers
            if each["http_port"]
        ]
    except (http_client.HttpError, ValueError, KeyError, TypeError, RecursionError):
        return []
