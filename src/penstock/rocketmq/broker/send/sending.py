"""Sending: a message, or a batch of them, is checked, stored, and acknowledged.

See RocketMQ spec 2.1.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.errors import (
    DiskFullError,
    DiskHangsError,
    ExitingError,
    LateCopyError,
    NotCopiedError,
    ReadOnlyError,
    StorageError,
)
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names, permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.delays.recalls import handle_of
from penstock.rocketmq.broker.send.send_header import SendHeader
from penstock.rocketmq.broker.state.topic_table import WRITE
from penstock.rocketmq.broker.store import serials
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.mixed_batch import MixedBatch, Sent, with_more
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.message import TRANSACTION_BITS
from penstock.rocketmq.protocol.registration import TopicConfig

if TYPE_CHECKING:
    from penstock.broker.publish.batching import Outcome
    from penstock.core.chance import Chance
    from penstock.core.clock import Clock
    from penstock.lane import Stored
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.delays.publisher import Publisher
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.send.flush_timeouts import FlushTimeouts
    from penstock.rocketmq.broker.send.retries import Retries
    from penstock.rocketmq.broker.slaves.acks import SlaveAcks
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import AnyRecords, MessageStore
    from penstock.rocketmq.broker.transactions.ending import Transactions
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

_IDS_BYTES_MAX: Final = frames.HEADER_MAX - 64 * 1024
"""The room for the ids of a batch's messages, which go back in one header with other fields."""
STORED: Final = (ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT)
"""The codes of sends whose message is stored."""
_SHARED_CHARS_MAX: Final = 64 * 1024 * 1024
"""The most characters that a batch's properties may take, as each of its messages gets a copy."""
_WAIT: Final = f"{properties.WAIT}{properties.NAME_END}"
_CLUSTER: Final = f"{properties.CLUSTER}{properties.NAME_END}"
_POP_CK: Final = f"{properties.POP_CK}{properties.NAME_END}"
_POP_CK_BYTES: Final = _POP_CK.encode()
_TRANSACTION: Final = f"{properties.TRANSACTION}{properties.NAME_END}true"
_ILLEGAL: Final = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length "
    "limit {}B, msg properties length limit 32KB."
)


@dataclass(slots=True, eq=False)
class Sends:
    """Answers to sends."""

    settings: BrokerSettings
    topics: TopicTable
    store: MessageStore
    publisher: Publisher
    transactions: Transactions
    name_servers: NameServers
    stats: Stats
    retries: Retries
    slave_acks: SlaveAcks | None
    flush_timeouts: FlushTimeouts | None
    cluster_property: str
    clock: Clock
    chance: Chance

    @answers(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    def send(self, connection: Connection, request: Command) -> Command | None:
        header = SendHeader.of(request)
        header.check()
        # Whether this send makes the topic: then its answer waits for the name servers.
        topics_before = self.topics.version.counter
        config = self.checked_topic(connection, header)
        # Java picks a queue at random for a negative number.
        queue = (
            header.queue if header.queue >= 0 else self.chance.below(max(1, config.write_queues))
        )
        records: AnyRecords
        # The field makes a batch, not the code 320 (RocketMQ spec 2.1).
        if header.batch:
            topic, put_queue = header.topic, queue
            records = self._batch(connection, request, header, queue)
        else:
            draft = self._draft(connection, request, header, queue)
            draft = self._rerouted(request, header, draft)
            topic, put_queue = draft.topic, draft.queue
            records = self.store.records((draft,))
        sending = _Sending(self, connection, request, records, topic, queue)
        is_recallable = topic is names.TIMER_TOPIC and self.settings.recall_message_enable
        if is_recallable or topic is names.HALF_TOPIC:
            # Its answer has one more field: a handle to recall it, or the id of its transaction.
            sending.waiting = draft
        # Only a message that says WAIT=false does not wait (RocketMQ spec 7.3).
        if self.slave_acks is not None and _WAIT in header.properties:
            sending.waits = properties.value_of(header.properties, properties.WAIT) != "false"
        done = sending.done
        if self.topics.version.counter != topics_before:
            done = partial(self._once_registered, done)
        self.store.put_records(topic, put_queue, records, done)
        # After the put: a send that is refused here has nothing to wait for.
        if self.flush_timeouts is not None:
            self.flush_timeouts.watch(sending)
        return None

    def _once_registered(self, done: Outcome, error: StorageError | None) -> None:
        """Answer the first message of a topic when name servers know it, as Java does: whoever has
        the answer may ask them for the route.
        """
        spawn(self._wait_and_tell(done, error), "first message of a topic")

    async def _wait_and_tell(self, done: Outcome, error: StorageError | None) -> None:
        await self.name_servers.registered()
        done(error)

    def stored(
        self, request: Command, code: ResponseCode, message_ids: str, queue: str, offset: str
    ) -> Command:
        """The answer to a send whose messages are stored."""
        ext = {
            "MSG_REGION": self.settings.region_id,
            "TRACE_ON": str(self.settings.trace_on).lower(),
            "msgId": message_ids,
            "queueId": queue,
            "queueOffset": offset,
        }
        return request.answer(code, ext=ext)

    def checked_topic(self, connection: Connection, header: SendHeader) -> TopicConfig:
        """The topic that a message is for, made if need be. Raises RefusedError."""
        config = self.topics.get(header.topic)
        # The forbidden topics are in the table as well; making one is what refuses them.
        if config is None or header.topic in names.NOT_FOR_CLIENTS:
            config = self._make_topic(connection, header)
        if config.order:  # as in Java: for other topics, the route alone turns clients away
            permissions.need_broker(self.settings, WRITE)
        # Java 4.9 answers 1, so producers try another broker; 5.x answers 29.
        if header.queue >= max(config.write_queues, config.read_queues):
            remark = (
                f"request queueId[{header.queue}] is illegal, {config} "
                f"Producer: {connection.address}"
            )
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        return config

    def _make_topic(self, connection: Connection, header: SendHeader) -> TopicConfig:
        problem = names.topic_problem(header.topic)
        if problem is not None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
        if header.topic in names.NOT_FOR_CLIENTS:
            remark = f"Sending message to topic[{header.topic}] is forbidden."
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
        config = self.topics.make_for_send(
            header.topic, header.default_topic, header.default_queues, wall_ms(self.clock)
        )
        if config is None:
            raise permissions.no_topic(header.topic)
        logger.info(
            "%s made the topic %s by sending to it: %d queues",
            connection.address,
            config.name,
            config.write_queues,
        )
        self.make_log(config.name)
        return config

    def make_log(self, topic: str) -> None:
        """Make the log of a topic that is new in the table, where nothing is left of it if there is
        no room for that. Raises StorageError.
        """
        try:
            self.topics.changed()
            self.store.topic(topic)
        except StorageError:
            self.topics.delete(topic, wall_ms(self.clock))
            with suppress(StorageError):  # it may be for the same reason; the first error is told
                self.topics.changed()
            raise

    def _draft(
        self, connection: Connection, request: Command, header: SendHeader, queue: int
    ) -> Draft:
        # RocketMQ spec 2.1, code 13.
        if len(request.body) > self.settings.max_message_size:
            raise self._illegal()
        text = self._stored_text(header.properties)
        self._check_length(text)
        return Draft(
            header.topic,
            queue,
            request.body,
            text,
            header.flag,
            header.sys_flag,
            header.born_ms,
            connection.host,
            header.reconsume_times,
        )

    def _rerouted(self, request: Command, header: SendHeader, draft: Draft) -> Draft:
        """A retry that failed too often, half of a transaction, or a delay go to other topics."""
        if draft.topic.startswith(names.RETRY_PREFIX):
            # RocketMQ spec 4.5: the client sends here itself when its request 36 has failed.
            draft = self.retries.dead_letter_rule(
                draft, header.max_reconsume_times, request.version
            )
            # Java's clients before 4.6.1 still say of a message that it was sent in a transaction.
            draft.sys_flag &= ~TRANSACTION_BITS
            return self.publisher.divert(draft)
        is_half = _TRANSACTION in draft.properties  # a quick look, then a good one
        if is_half and properties.value_of(draft.properties, properties.TRANSACTION) == "true":
            if self.settings.reject_transaction_message:
                ip = self.settings.broker_ip1
                remark = f"the broker[{ip}] sending transaction message is forbidden"
                raise RefusedError(ResponseCode.NO_PERMISSION, remark)
            # RocketMQ spec 2.1, step 3: a half message waits first, and for its delay then.
            return self.transactions.half(draft)
        return self.publisher.divert(draft)

    def _batch(
        self, connection: Connection, request: Command, header: SendHeader, queue: int
    ) -> AnyRecords:
        # Java refuses batches for retry topics.
        if names.is_inner(header.topic):
            remark = "batch request does not support retry group"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        if len(request.body) > self.settings.max_message_size:
            raise self._illegal()
        common = Draft(header.topic, queue, b"", "", 0, header.sys_flag, header.born_ms,
                       connection.host, header.reconsume_times)  # fmt: skip
        return self.batch(request.body, common, self.shared_text(header.properties))

    def batch(self, data: bytes, common: Draft, shared: str) -> Stored | MixedBatch:
        """Records of the messages of a batch, which share these fields and properties.

        Raises RefusedError.
        """
        # A receipt has to be cut out of each message.
        if _POP_CK_BYTES not in data:
            stored = self.store.stored(data, common, shared.encode())
            if stored is not None:
                self._check_count(stored.count, shared)
                return stored
        messages = [(flag, body, _without_receipt(text)) for flag, body, text in _parts(data)]
        self._check_count(len(messages), shared)
        whole = with_more(messages, shared.encode())
        if whole is None:
            raise self._illegal()
        return self.store.mixed_batch(whole, common)

    def _check_count(self, count: int, shared: str) -> None:
        ids_max = _IDS_BYTES_MAX // (len(self.store.message_id(0)) + 1)
        if count > ids_max:
            remark = f"a batch of {count} messages is too large: the limit is {ids_max}"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        if count * len(shared) > _SHARED_CHARS_MAX:
            remark = (
                f"{len(shared)} characters of properties for each of {count} messages of a batch"
            )
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, f"{remark} are too many")

    def shared_text(self, text: str) -> str:
        """Properties added to each message of a batch: the cluster, and those of the batch.

        This follows Java except for the batch's unique key: each message has its own and keeps it.
        """
        return _shared_text(self.cluster_property, text)

    def _stored_text(self, text: str) -> str:
        """Properties as they are stored: what was for the broker only is out, its cluster is in."""
        # Java 4.9 strips WAIT before it stores a message.
        if _WAIT in text:
            text = properties.without(text, properties.WAIT)
        if _CLUSTER in text:  # of the broker that sent the message on
            text = properties.without(text, properties.CLUSTER)
        if _POP_CK in text:  # or a consumer would acknowledge it where it was popped before
            text = properties.without(text, properties.POP_CK)
        # Java's brokers add their cluster to each message: request and reply need it.
        return _with(text, self.cluster_property)

    def _check_length(self, text: str) -> None:
        # No character has more than four bytes, so short texts need not be encoded to be measured.
        few = len(text) <= properties.BYTES_MAX // 4
        if not few and len(text.encode("utf-8", "replace")) > properties.BYTES_MAX:
            raise self._illegal()

    def _illegal(self) -> RefusedError:
        remark = _ILLEGAL.format(self.settings.max_message_size)
        return RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)


def _without_receipt(text: bytes) -> bytes:
    if _POP_CK_BYTES not in text:
        return text
    return properties.without(text.decode("utf-8", "replace"), properties.POP_CK).encode()


@lru_cache(maxsize=64)
def _shared_text(cluster: str, text: str) -> str:
    found = properties.parse(text)
    # Those of the batch would stand in every message of it (RocketMQ spec 3.6).
    for name in (properties.UNIQUE_KEY, properties.CLUSTER, properties.POP_CK):
        found.pop(name, None)
    return _with(cluster, properties.join(found)).removesuffix(properties.VALUE_END)


def _parts(body: bytes) -> list[Sent]:
    try:
        return batch_body.parts(body)
    except BodyError as error:
        raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None


def _with(text: str, more: str) -> str:
    """The properties of two texts in one."""
    if text and not text.endswith(properties.VALUE_END):
        text += properties.VALUE_END
    return text + more


class _Sending:
    """A send that is being stored."""

    __slots__ = ("_began_ns", "_connection", "_is_stored", "_queue", "_records",
                 "_request", "_sends", "_topic", "is_answered", "waiting", "waits")  # fmt: skip

    def __init__(
        self,
        sends: Sends,
        connection: Connection,
        request: Command,
        records: AnyRecords,
        topic: str,
        queue: int,
    ) -> None:
        self._sends = sends
        self._connection = connection
        self._request = request
        self._records = records
        self._topic = topic
        self._queue = queue
        self._began_ns = sends.stats.put_begins()
        self._is_stored = False
        self.is_answered = False
        self.waits = True
        """False of a send that does not wait for slaves."""
        self.waiting: Draft | None = None
        """The message, if it can be recalled until its time, or waits for its transaction's end."""

    def done(self, error: StorageError | None) -> None:
        """Tell the producer that the message is stored, or is not."""
        stats, code = self._sends.stats, ResponseCode.SUCCESS
        if error is not None:
            code = error_code(error)
        is_stored = code in STORED
        if not is_stored:
            stats.put_failed()
        elif self._began_ns:
            stats.put_ends(self._topic, self._queue, self._began_ns)
        # The disk took too long, and the producer knows; the message is stored all the same.
        if self.is_answered:
            return
        if not is_stored:
            self.is_answered = True
            if not self._request.is_one_way:
                self._connection.send(storage_failure(self._request, code, error))
            return
        self._is_stored = True
        acks = self._sends.slave_acks
        if acks is None or not self.waits:
            self._answer(code)
        else:
            end = serials.log_offset(self._records.physical_offset) + self._records.count
            acks.wait(self._topic, end, self._answer)

    def flush_timed_out(self) -> None:
        """Tell the producer that the message is stored, but the disk takes long to keep it.

        One that waits for its place yet, as behind a large commit, is answered when it has it.
        """
        if not self._is_stored and self._records.physical_offset:  # which is never 0
            self._answer(ResponseCode.FLUSH_DISK_TIMEOUT)

    def _answer(self, code: ResponseCode) -> None:
        self.is_answered = True
        request = self._request
        if request.is_one_way:
            return
        records, store = self._records, self._sends.store
        if records.count == 1:
            message_ids = store.message_id(records.physical_offset)
        else:
            message_ids = store.message_ids(records.physical_offset, records.count)
        # RocketMQ spec 2.1: a delayed message is answered with its real queue, but with its offset
        # in the queue where it waits.
        answer = self._sends.stored(
            request, code, message_ids, str(self._queue), str(records.queue_offset)
        )
        if self.waiting is not None:
            self._name_waiting(self.waiting, answer)
        self._connection.send(answer)

    def _name_waiting(self, draft: Draft, answer: Command) -> None:
        """Add the field by which the producer ends a transaction, or recalls a message."""
        settings, ext = self._sends.settings, answer.ext
        assert ext is not None
        if draft.topic is names.TIMER_TOPIC:
            handle = handle_of(draft, settings.broker_name, self._records.queue_offset)
            ext["recallHandle"] = str(handle)
        elif unique_id := properties.value_of(draft.properties, properties.UNIQUE_KEY):
            # Without it 5.x's proxy begins no transaction.
            ext["transactionId"] = unique_id


def error_code(error: StorageError) -> ResponseCode:
    """The code of the answer to a send that met this error."""
    if isinstance(error, LateCopyError):
        return ResponseCode.FLUSH_SLAVE_TIMEOUT
    elsewhere = DiskFullError | DiskHangsError | ReadOnlyError | ExitingError | NotCopiedError
    if isinstance(error, elsewhere):
        # With this code producers try another broker, as with a Java broker whose disk is full
        # (RocketMQ spec 2.1).
        return ResponseCode.SERVICE_NOT_AVAILABLE
    return ResponseCode.SYSTEM_ERROR


def storage_failure(request: Command, code: ResponseCode, error: StorageError | None) -> Command:
    """The answer when a message could not be stored."""
    remark = f"service not available now, the message is not stored: {error}"
    # Java's client fails on an answer to a send whose fields are missing, even for an error.
    return request.answer(code, remark, ext={})
