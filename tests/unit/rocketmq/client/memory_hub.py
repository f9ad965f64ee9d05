"""A hub without a network: requests go to functions, time passes when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import NoNameServer, NotConnected
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.protocol import fastjson, frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

NAME_SERVER = "ns:9876"
Answer = Callable[[str, Command], Command | None]


CONFIG = Config(namesrv_addr=NAME_SERVER, client_ip="10.0.0.1")


class FakeClock:
    """Two clocks that the test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def monotonic_ns(self) -> int:
        return self.now

    def wall_ns(self) -> int:
        return self.now


def refusing(code: int, remark: str = "no") -> Answer:
    """A broker that refuses."""
    return lambda _, request: request.answer(code, remark)


def answering(body: bytes = b"", **ext: str) -> Answer:
    """A broker that has done it, and says this."""
    return lambda _, request: request.answer(body=body, ext=ext or None)


def silent(_: str, request: Command) -> None:
    """A broker that answers nothing."""


class MemoryHub(Hub):
    """``answers`` has a function by request code; None answers nothing, silently.

    ``down`` are addresses that refuse connections, ``log`` all requests with their addresses.
    Without a configuration it has a name server, and these options.
    """

    def __init__(self, config: Config | None = None, /, **options: Any) -> None:
        self.time = FakeClock()
        super().__init__(config or replace(CONFIG, **options), self.time, SystemChance(7))
        self.answers: dict[int, Answer] = {}
        self.log: list[tuple[str, Command]] = []
        self.down: set[str] = set()
        self.pages: dict[str, bytes] = {}
        self._undialled: list[Wire] = []
        self._unsent: list[Wire] = []

    # --- what the core asks for ------------------------------------------------------------------

    def connect(self, wire: Wire) -> None:
        self._undialled.append(wire)

    def flush(self, wire: Wire) -> None:
        self._unsent.append(wire)

    def disconnect(self, wire: Wire) -> None:
        pass

    def rescheduled(self) -> None:
        pass

    def call(self, function: Callable[..., Any], *arguments: Any) -> Promise[Any]:
        promise = Promise[Any]()
        try:
            found = function(*arguments)
            assert not isawaitable(found)
            promise.keep(found)
        except Exception as error:
            promise.fail(error)
        return promise

    def fetch(self, url: str) -> Promise[bytes]:
        promise = Promise[bytes]()
        if url in self.pages:
            promise.keep(self.pages[url])
        else:
            promise.fail(NoNameServer(f"{url}: status 404"))
        return promise

    # --- what the test does ----------------------------------------------------------------------

    def work(self) -> None:
        """Carry out what is under way, as far as it goes without time."""
        while self._undialled or self._unsent:
            if self._undialled:
                wire = self._undialled.pop(0)
                if wire.address in self.down:
                    self.lose(wire, NotConnected(wire.address, "connection refused"))
                else:
                    self.opened(wire)
                continue
            wire = self._unsent.pop(0)
            if wire.is_open:
                self._serve_output(wire)

    def _serve_output(self, wire: Wire) -> None:
        reader = frames.FrameReader()
        reader.feed(wire.take_output())
        while (request := reader.next_command()) is not None:
            self.log.append((wire.address, request))
            serve = self.answers.get(request.code)
            answer = serve(wire.address, request) if serve is not None else None
            if answer is not None and not request.is_one_way:
                wire.receive_data(frames.encode(answer))

    def passes(self, seconds: float) -> None:
        """So much time passes, and what is due by then happens when it is."""
        ends = self.time.now + int(seconds * SECOND)
        self.work()
        while (due := self.deadline) is not None and due <= ends:
            self.time.now = max(self.time.now, due)
            self.tick()
            self.work()
        self.time.now = ends

    def does(self, wanted: Promise[Any] | Coroutine[Any, None, Any], seconds: float = 100.0) -> Any:
        """The value of a promise or a coroutine, within this time."""
        promise = wanted if isinstance(wanted, Promise) else Job(wanted)
        self.work()
        for _ in range(1000):
            if promise.is_done or seconds < 0:
                break
            self.passes(0.1)
            seconds -= 0.1
        assert promise.is_done, "it is not done"
        return promise.result()

    def codes(self) -> list[int]:
        """The codes of all requests so far."""
        return [request.code for _, request in self.log]

    def requests(self, code: RequestCode) -> list[Command]:
        """The requests with this code so far."""
        return [request for _, request in self.log if request.code == code]

    def loses(self, address: str) -> None:
        """A connection ends."""
        self.lose(self.connections[address], NotConnected(address, "gone"))

    def receive(self, address: str, request: Command) -> None:
        """A broker asks."""
        self.connections[address].receive_data(frames.encode(request))
        self.work()

    # --- brokers ---------------------------------------------------------------------------------

    def has_topic(self, *topics: str, brokers: str = "a", queues: int = 2, perm: int = 6) -> None:
        """Name servers know these topics; other questions are answered by what brokers do."""
        known = getattr(self, "known", {})
        self.known: dict[str, dict[str, Any]] = known
        for topic in topics:
            known[topic] = {
                "brokerDatas": [
                    {"brokerAddrs": {"0": f"{name}:10911"}, "brokerName": name, "cluster": "c"}
                    for name in brokers
                ],
                "queueDatas": [
                    {"brokerName": name, "perm": perm, "readQueueNums": queues,
                     "writeQueueNums": queues, "topicSysFlag": 0}
                    for name in brokers
                ],
            }  # fmt: skip
        self.answers.setdefault(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
        for code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            self.answers.setdefault(code, lambda _, request: request.answer())
        self.answers.setdefault(RequestCode.SEND_MESSAGE_V2, self.stored)
        self.answers.setdefault(RequestCode.SEND_BATCH_MESSAGE, self.stored)

    def _route(self, _: str, request: Command) -> Command:
        route = self.known.get(request.text("topic"))
        if route is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
        return request.answer(body=fastjson.dumps(route))

    def stored(self, _: str, request: Command) -> Command:
        """A send has succeeded."""
        offset_id = "7F00000100002A9F0000000000000000"
        fields = {"msgId": offset_id, "queueId": request.text("e"), "queueOffset": "5"}
        return request.answer(ext=fields)
