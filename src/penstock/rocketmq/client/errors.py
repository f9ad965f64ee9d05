"""Failures between a client and RocketMQ's servers, as exceptions.

Every refusal of a server is a ``BrokerError``; the codes that a program may want to tell apart have
an exception each, which ``refusal`` finds. All of them are ``ClientError``.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import ConfigError, PenstockError
from penstock.rocketmq.protocol.codes import ResponseCode


class ClientError(PenstockError):
    """Anything a client of RocketMQ can report: ``told`` is what happened, ``remedy`` what helps.

    The text has both; ``remedy`` is empty where the reason says it all.
    """

    def __init__(self, told: str = "", remedy: str = "") -> None:
        self.told = told
        self.remedy = remedy
        super().__init__(f"{told}; {remedy}" if remedy else told)


class NotConnected(ClientError):
    """A server cannot be reached, or was lost; whether it has carried out a request is open."""

    REMEDY = "see that it runs and can be reached from here: the next request connects again"

    def __init__(self, address: str, reason: str, remedy: str | None = None) -> None:
        """``remedy`` is in the place of the usual one."""
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}", self.REMEDY if remedy is None else remedy)


def no_broker(name: str) -> NotConnected:
    """The error of a broker that no name server knows, or whose master is gone."""
    return NotConnected(
        name,
        f"The broker[{name}] not exist",
        "mqadmin clusterList shows the brokers that are there: start its master, or take another's "
        "queues",
    )


class TimedOut(NotConnected):
    """No answer came in time."""

    REMEDY = (
        "see that the server has not too much to do, or allow more time (request_timeout, for "
        "sends send_msg_timeout)"
    )


class BadTlsOptions(ClientError, ConfigError):
    """The ``tls_*`` options, or the files that they name, cannot be used."""


class BadName(ClientError, ValueError):
    """A name that no topic or group may have."""


class BadMessage(ClientError, ValueError):
    """A message that no broker would take: too long, empty, or with properties it may not have."""


class BadAnswer(ClientError):
    """A server's answer that makes no sense; it may not be a server of RocketMQ."""


class Stopped(ClientError):
    """The client was closed; what was under way by then was carried out, or perhaps not."""

    def __init__(self) -> None:
        super().__init__("the client is closed; make another one")


class NoNameServer(ClientError):
    """No name server gave an answer."""


PAGE = "namesrv_url must be a page of addresses (host:port;host:port); namesrv_addr needs none"
"""The remedy where the page with name servers cannot be read."""


class NoRoute(ClientError):
    """No broker serves this topic."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(f"No route info of this topic: {topic} - {reason}")


class SendFailed(ClientError):
    """A message was refused, or not answered, by every broker that was tried.

    ``errors`` has the reason of each try; any of them may have stored the message all the same if
    its reason is a ``NotConnected``.
    """

    def __init__(self, topic: str, errors: Sequence[ClientError]) -> None:
        self.topic = topic
        self.errors = tuple(errors)
        told = "; ".join(dict.fromkeys(each.told for each in errors))
        remedy = "; ".join(dict.fromkeys(each.remedy for each in errors if each.remedy))
        text = f"Send [{len(errors)}] times, still failed, Topic: {topic} - {told}"
        super().__init__(text, remedy)


class NotAssigned(ClientError):
    """The consumer does not have this queue at present."""


class NoReply(ClientError):
    """A request message was stored, and nobody answered it in time."""


_NAMES = {int(code): code.name for code in ResponseCode}


class BrokerError(ClientError):
    """A refusal: ``code`` is the server's number, ``remark`` its words."""

    REMEDY = ""

    def __init__(self, address: str, code: int, remark: str, subject: str = "") -> None:
        self.address = address
        self.code = code
        self.remark = remark
        name = _NAMES.get(code, "code")
        about = f" ({subject})" if subject else ""
        told = f"{address}{about}: {name} {code}: {remark or 'without a reason'}"
        super().__init__(told, self.REMEDY)


class SystemBusy(BrokerError):
    """The server has too much to do; later it may take the request."""


class NotSupported(BrokerError):
    """The server does not know such requests; it may be too old."""


class ServiceNotAvailable(BrokerError):
    """The broker stores nothing at present: it shuts down, its disk is full, or it is a replica."""


class MessageIllegal(BrokerError):
    """The broker does not take such a message; mostly it is too long for its settings."""


class NoPermission(BrokerError):
    """The topic, the group or the account does not allow this."""

    REMEDY = (
        "mqadmin topicRoute shows what the topic allows (updateTopicPerm changes it), getAclConfig "
        "what the account may do (access_key and secret_key are this client's)"
    )


class TopicNotExist(BrokerError):
    """The topic is not there, and nobody may create it by sending to it."""


class NotFound(BrokerError):
    """A question for something that is not there."""


class BadFilter(BrokerError):
    """The broker cannot read the filter expression, or has no such filters."""


class GroupNotExist(BrokerError):
    """The group is not there, and nobody may create it by joining it."""


class BadParameter(BrokerError):
    """A field of the request is not what it must be."""


_BY_CODE: dict[int, type[BrokerError]] = {
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: NotSupported,
    ResponseCode.SERVICE_NOT_AVAILABLE: ServiceNotAvailable,
    ResponseCode.MESSAGE_ILLEGAL: MessageIllegal,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.TOPIC_NOT_EXIST: TopicNotExist,
    ResponseCode.QUERY_NOT_FOUND: NotFound,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: BadFilter,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotExist,
    ResponseCode.INVALID_PARAMETER: BadParameter,
}


def refusal(address: str, code: int, remark: str | None, subject: str = "") -> BrokerError:
    """The exception of an answer's code; a plain BrokerError for the rarer ones."""
    return _BY_CODE.get(code, BrokerError)(address, code, remark or "", subject)
