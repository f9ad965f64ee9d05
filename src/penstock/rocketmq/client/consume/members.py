"""The members of a group, as its brokers list them."""

from __future__ import annotations

from penstock.rocketmq.client.errors import BadAnswer, ClientError, NotFound
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.errors import BodyError


class Members:
    """A group's members, of the first broker that answers: all members ask the same, and agree."""

    def __init__(self, hub: Hub, group: str) -> None:
        self._hub = hub
        self._group = group

    async def of(self, brokers: list[str]) -> list[str]:
        """The ids of all members. Raises ClientError when none of these brokers tells."""
        failure: ClientError | None = None
        for broker in brokers:
            address = self._hub.routes.reader(broker)
            if address is None:
                continue
            try:
                return await self._ask(address)
            except ClientError as error:
                failure = error
        raise failure or NotFound("", 0, f"no broker is there to list the members of {self._group}")

    async def _ask(self, address: str) -> list[str]:
        code, fields = RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group}
        answer = await self._hub.demand(address, code, fields, subject=f"group {self._group}")
        try:
            return [str(each) for each in fastjson.loads(answer.body)["consumerIdList"]]
        except (BodyError, KeyError, TypeError) as error:
            raise BadAnswer(f"{address}: no list of members: {error}") from None
