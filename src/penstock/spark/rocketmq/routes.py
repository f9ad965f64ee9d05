"""The brokers that name servers know: which to ask for which topics."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.log_api.errors import NodeUnreachable, TlsFailed
from penstock.rocketmq.protocol import fastjson, requests
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.requests import Request
from penstock.spark.errors import SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.nodes.directory import Directory, LastAnswer
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings

_READ = 4
_OWN_TOPICS = Request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, {})


class Routes(Directory):
    """Routes by name servers, not nsqlookupds; one answer is enough, as they know the same.

    ``answers`` are those of before, which serve while name servers are silent.
    """

    def __init__(
        self, settings: RocketmqSettings, answers: dict[str, LastAnswer[Any]] | None = None
    ) -> None:
        super().__init__(settings)
        self._answers = {} if answers is None else answers
        access = settings.access
        assert isinstance(access, BrokerAccess)
        self._links = [access.link(address) for address in settings.namesrv]
        self._timeout_s = access.timeout_s

    def topics_at(self) -> Mapping[str, list[str]]:
        """Look the topics up, then drop the connections: the next question may be far off."""
        try:
            return super().topics_at()
        finally:
            self.close()

    def close(self) -> None:
        """Close the connections; a later question opens others."""
        for link in self._links:
            link.close()

    def _look(self) -> dict[str, list[str]]:
        return self._brokers_of(self._settings.topics)

    def _find_topics(self) -> dict[str, list[str]]:
        every = self._ask(requests.topic_list(), "topics")
        own = self._ask(_OWN_TOPICS, "its own topics")
        topics = set(_names(every)) - set(_names(own))
        return self._brokers_of(sorted(filter(self._settings.reads, topics)))

    def _brokers_of(self, topics: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for topic in topics:
            for address in self._route(topic):
                found.setdefault(address, []).append(topic)
        return found

    def _route(self, topic: str) -> list[str]:
        """The brokers that serve readers of a topic; none for one that is not there."""
        answer = self.route(topic)
        return [] if answer is None else brokers_in(answer)

    def route(self, topic: str) -> Any:
        """The route of a topic as it is told; None for one that is not there."""
        return self._ask(requests.route(topic), f"topic {topic}")

    def _ask(self, request: Request, what: str) -> Any:
        """The answer of the first name server that gives one; None for an unknown topic."""
        last = self._answers.setdefault(what, LastAnswer(self._once))

        def ask(timeout_s: float) -> Any:
            return self._understood(self._first_answer(request, timeout_s), what)

        return last.renew(ask, f"no name server answers for {what}", self._timeout_s)

    def _understood(self, answer: Command, what: str) -> Any:
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        try:
            if answer.code == ResponseCode.SUCCESS:
                return fastjson.loads(answer.body)
            said = answer.remark or f"code {answer.code}"
        except BodyError as error:
            said = f"its answer is not a name server's: {error}"
        raise SourceError(f"name server, asked for {what}: {said}")

    def _first_answer(self, request: Request, timeout_s: float) -> Command:
        for number, link in enumerate(self._links):
            link.seconds = timeout_s
            try:
                answer = link.ask(*request)
            except OSError as error:
                kind = TlsFailed if isinstance(error, ssl.SSLError) else NodeUnreachable
                failed: Exception = kind(link.address, "", str(error) or repr(error))
                failed.__cause__ = error
                continue
            # The next time this one is asked first.
            self._links.insert(0, self._links.pop(number))
            return answer
        raise failed


def cluster_of(settings: RocketmqSettings) -> Cluster:
    """The nodes behind these options, found by name servers where there are any."""
    return Cluster(settings, Routes(settings) if settings.namesrv else None)


def brokers_in(route: Any) -> list[str]:
    """The addresses of the brokers in a route from which messages may be read: masters, or the
    first of their replicas. Raises SourceError.
    """
    try:
        readable = {queue["brokerName"] for queue in route["queueDatas"] if queue["perm"] & _READ}
        addresses = [
            _first(broker["brokerAddrs"])
            for broker in route["brokerDatas"]
            if broker["brokerName"] in readable and broker["brokerAddrs"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SourceError("a name server answers with a route that makes no sense") from None
    return sorted(addresses)


def _first(addresses: Mapping[Any, str]) -> str:
    return addresses[min(addresses, key=int)]


def _names(listed: Any) -> list[str]:
    names = listed.get("topicList") if isinstance(listed, dict) else None
    if not isinstance(names, list):
        raise SourceError("a name server answers with a list of topics that makes no sense")
    return [name for name in names if isinstance(name, str)]
