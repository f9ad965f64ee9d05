"""Requests that a slave does not carry out, as Java's slaves do not (RocketMQ spec 7.4)."""

from __future__ import annotations

from typing import Final

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

_SENDS: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.RECALL_MESSAGE,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
)
_CHANGES: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
)
_CLEANING: Final = (
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)
"""Requests that a slave answers without effect: its master cleans up for both. Tools ask all
brokers of a cluster, and a refusal would end that in the middle.
"""
_NO_SEND: Final = (
    "service not available now. It may be caused by one of the following reasons: the broker's "
    "disk is full, messages are put to the slave, message store has been shut down, etc."
)
_NO_CHANGE: Final = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)
_REFUSALS: Final[dict[int, tuple[ResponseCode, str | None]]] = {
    **dict.fromkeys(_SENDS, (ResponseCode.SERVICE_NOT_AVAILABLE, _NO_SEND)),
    **dict.fromkeys(_CHANGES, (ResponseCode.SYSTEM_ERROR, _NO_CHANGE)),
    **dict.fromkeys(_CLEANING, (ResponseCode.SUCCESS, None)),
    RequestCode.END_TRANSACTION: (ResponseCode.SLAVE_NOT_AVAILABLE, None),
}


def refusal(request: Command) -> Command | None:
    """The answer of a slave that does not do what is asked; None if it does."""
    found = _REFUSALS.get(request.code)
    return None if found is None else request.answer(*found, ext={})
