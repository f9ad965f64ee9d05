"""Transactions and delayed messages at one mqbroker which may die at any moment.

The producer is a bad one: it asks for both outcomes of some transactions at once, says something
else each time it is asked, and leaves some open. What it was told is written down and held against
what consumers find.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.messages import message, properties
from tools.harness.rocketmq.raw_client import RawClient

from .mqbroker import Broker

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP: Final = "bad-producers"
TRANSACTIONS: Final = "kill-transactions"
DELAYED: Final = "kill-delayed"
GIVEN_UP: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""The topic for transactions that are older than the retention time, as in Java; they go there at
once if the clock is set ahead by days.
"""
QUEUES: Final = 4
AT_ONCE: Final = 40
DELAY_MS: Final = 1000
SECONDS_MAX: Final = 90.0
_HALF: Final = properties.join({"TRAN_MSG": "true", "PGROUP": GROUP})


class Load:
    """What the producer was told, over the lives of several brokers."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self.broker = broker
        self.rng = rng
        self.begun: set[bytes] = set()
        self.ended: dict[bytes, set[int]] = {}
        """The outcomes that were acknowledged."""
        self.asked: dict[bytes, set[int]] = {}
        """The outcomes that were asked for, acknowledged or not."""
        self.delayed: dict[bytes, int] = {}
        """When an acknowledged message with a delay was sent, in ms of the monotonic clock."""
        self.sent: set[bytes] = set()
        self.checks = 0
        self.stopping = threading.Event()
        self._next = 0
        self._found: dict[str, tuple[Counter[bytes], list[int]]] = {}

    # --- while it lives and dies ---------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Work until the broker is killed, which happens after so long."""
        killer = threading.Timer(seconds, self.broker.kill)
        with self._connected() as client:
            if not self.begun:  # however slow the machine is, something is done
                self._work(client)
            killer.start()
            with suppress(EOFError, OSError):
                while True:
                    self._work(client)
        killer.join()

    def work_until_killed(self) -> None:
        """Work until another thread kills the broker, or asks for the end."""
        with suppress(EOFError, OSError), self._connected() as client:
            while not self.stopping.is_set():
                self._work(client)

    def _connected(self) -> _Closing:
        client = RawClient(self.broker.port)
        beat = {"clientID": "bad", "producerDataSet": [{"groupName": GROUP}]}
        try:
            assert client.ask(RequestCode.HEART_BEAT, json.dumps(beat).encode()).code == 0
        except BaseException:
            client.close()
            raise
        return _Closing(client)

    def _work(self, client: RawClient) -> None:
        halves = self._send(client, TRANSACTIONS, _HALF, AT_ONCE)
        self.begun.update(halves)
        self._send_delayed(client)
        requests: dict[int, tuple[bytes, int]] = {}
        data = []
        for body, answer in halves.items():
            for outcome in self._outcomes():
                self.asked.setdefault(body, set()).add(outcome)
                request = client.request(RequestCode.END_TRANSACTION, **_ending(answer, outcome))
                requests[request.opaque] = body, outcome
                data.append(frames.encode(request))
        client.send(b"".join(data))
        while requests:
            answer = self._next_answer(client)
            body, outcome = requests.pop(answer.opaque)
            if answer.code == 0:
                self.ended.setdefault(body, set()).add(outcome)
            else:
                assert "already" in (answer.remark or ""), answer

    def _outcomes(self) -> list[int]:
        """Mostly one outcome; sometimes both, in either order; sometimes none."""
        kind = self.rng.random()
        if kind < 0.2:
            return []
        both = [COMMIT, ROLLBACK]
        self.rng.shuffle(both)
        return both if kind < 0.5 else both[:1]

    def _send_delayed(self, client: RawClient) -> None:
        text = properties.join({"DELAY": "1"})
        if self.rng.random() < 0.5:
            text = properties.join({"TIMER_DELAY_MS": str(DELAY_MS)})
        start = time.monotonic_ns() // 1_000_000
        for body in self._send(client, DELAYED, text, 10):
            self.delayed[body] = start

    def _send(self, client: RawClient, topic: str, text: str, count: int) -> dict[bytes, Command]:
        """The answers to messages that were acknowledged, by their bodies."""
        bodies: dict[int, bytes] = {}
        data = []
        for _ in range(count):
            self._next += 1
            body = b"%d" % self._next
            self.sent.add(body)
            request = client.request(
                RequestCode.SEND_MESSAGE_V2, body, a=GROUP, b=topic, c="TBW102", d=QUEUES,
                e=self._next % QUEUES, f=0, g=int(time.time() * 1000), h=0, i=text, j=0, k="false",
            )  # fmt: skip
            bodies[request.opaque] = body
            data.append(frames.encode(request))
        client.send(b"".join(data))
        answers: dict[bytes, Command] = {}
        while len(answers) < count:
            answer = self._next_answer(client)
            assert answer.code == 0, answer
            answers[bodies[answer.opaque]] = answer
        return answers

    def _next_answer(self, client: RawClient) -> Command:
        while not (command := client.next_command()).is_response:
            self._answer_check(client, command)
        return command

    def _answer_check(self, client: RawClient, check: Command) -> None:
        """Say how a transaction ends; something else each time."""
        self.checks += 1
        half, _ = message.decode(check.body)
        assert check.ext is not None
        outcome = self.rng.choice([COMMIT, ROLLBACK, UNKNOWN])
        if outcome != UNKNOWN:
            self.asked.setdefault(half.body, set()).add(outcome)
        fields = _fields(check.ext["tranStateTableOffset"], check.ext["commitLogOffset"], outcome)
        client.send(frames.encode(client.request(37, flag_=ONE_WAY, **fields)))

    # --- afterwards ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Answer checks until no transaction is open and nothing is delayed any more."""
        deadline = time.monotonic() + SECONDS_MAX
        with self._connected() as client:
            while left := self._open(client):
                assert time.monotonic() < deadline, left
                time.sleep(0.05)

    def _open(self, client: RawClient) -> str:
        """Answer checks; returns a description of everything that is not settled yet."""
        half: dict[str, Any] = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0}
        # The other way round a half that is put back in between would seem to be done.
        done = self._ask(client, RequestCode.QUERY_CONSUMER_OFFSET,
                         consumerGroup="CID_RMQ_SYS_TRANS", **half).int64("offset")  # fmt: skip
        ahead = self._ask(client, RequestCode.GET_MAX_OFFSET, **half).int64("offset")
        missing = self.delayed.keys() - self._bodies(client, DELAYED).keys()
        if done == ahead and not missing:
            return ""
        return f"{ahead - done} halves are open, {len(missing)} delayed messages are missing"

    def _ask(self, client: RawClient, code: int, **fields: Any) -> Command:
        request = client.request(code, **fields)
        client.send(frames.encode(request))
        while (answer := self._next_answer(client)).opaque != request.opaque:
            pass
        return answer

    def _bodies(self, client: RawClient, topic: str) -> Counter[bytes]:
        """The bodies in the topic; only messages that are new since the last call are read."""
        found, offsets = self._found.setdefault(topic, (Counter(), [0] * QUEUES))
        for queue, offset in enumerate(offsets):
            while True:
                answer = self._ask(client, RequestCode.PULL_MESSAGE, consumerGroup="CG",
                                   topic=topic, queueId=queue, queueOffset=offset, maxMsgNums=32,
                                   sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subVersion=0,
                                   subscription="*")  # fmt: skip
                if answer.code != 0:
                    break
                found.update(each.body for each in message.decode_all(answer.body))
                offset = answer.int64("nextBeginOffset")
            offsets[queue] = offset
        return found

    def delivered(self, topic: str) -> Counter[bytes]:
        """The number of times that a consumer from the start finds each message."""
        self._found.pop(topic, None)
        with self._connected() as client:
            return self._bodies(client, topic)

    def check(self) -> str:
        """Compare the deliveries with the producer's answers; returns the figures in words."""
        committed, delayed = self.delivered(TRANSACTIONS), self.delivered(DELAYED)
        for body in self.begun - self.delivered(GIVEN_UP).keys():
            ended = self.ended.get(body, set())
            assert len(ended) <= 1, f"{body!r} has ended both ways"
            if ended:
                assert (body in committed) == (COMMIT in ended), (body, ended)
            assert (COMMIT if body in committed else ROLLBACK) in self.asked[body]
        assert not self.delayed.keys() - delayed.keys(), "delayed messages are lost"
        assert not (committed.keys() | delayed.keys()) - self.sent, "invented messages"
        return (
            f"{len(self.begun)} transactions, {len(committed)} committed, {self.checks} checks, "
            f"{committed.total() - len(committed)} doubled; {len(delayed)} delayed, "
            f"{delayed.total() - len(delayed)} doubled"
        )


class _Closing:
    def __init__(self, client: RawClient) -> None:
        self._client = client

    def __enter__(self) -> RawClient:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()


def _ending(answer: Command, outcome: int) -> dict[str, Any]:
    assert answer.ext is not None
    physical = int(answer.ext["msgId"][16:], 16)
    return _fields(answer.ext["queueOffset"], str(physical), outcome)


def _fields(queue_offset: str, physical: str, outcome: int) -> dict[str, Any]:
    return {"producerGroup": GROUP, "tranStateTableOffset": queue_offset,
            "commitLogOffset": physical, "commitOrRollback": outcome, "msgId": "x"}  # fmt: skip
