"""A member of a group of consumers, without I/O: which queues are its own, and what comes of them.

Members tell the brokers that they are there, ask who else is, and each computes its share; there is
nobody who decides. So two may have a queue at once for a moment, unless they consume in order:
then a queue is pulled only under a lock of its broker, and given back only when the message that is
being handled is done and committed.

Sharing is asked for by many, and done by one job at a time:

    sharing      event                       then
    at rest      ``share_soon``              set, for that time; a later call changes nothing
    set          its time                    under way
    under way    ``share_soon``              under way, and set
    both         its time                    under way, and once more from the start
    under way    its end                     at rest, or set
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from penstock.rocketmq.client.consume.allocation import Allocate, averagely, share_of
from penstock.rocketmq.client.consume.filters import SQL92, Filter, Subscription
from penstock.rocketmq.client.consume.handling_rates import HandlingRates
from penstock.rocketmq.client.consume.heartbeats import Heartbeats
from penstock.rocketmq.client.consume.held_queue import HeldQueue
from penstock.rocketmq.client.consume.locks import RENEW_S, Locks
from penstock.rocketmq.client.consume.members import Members
from penstock.rocketmq.client.consume.offsets import (
    BrokerOffsets,
    Commits,
    LocalOffsets,
    Offsets,
    Start,
)
from penstock.rocketmq.client.consume.pulling import Pulled, Puller, PullStatus
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError, Stopped
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.names import RETRY, checked_group, checked_topic, wrap
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import Job, all_of, settled
from penstock.rocketmq.client.network.timers import Timer
from penstock.rocketmq.protocol import fastjson, membership
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

SOON_S: Final = 0.5
"""The time after which queues that could not be taken are shared again."""
PULL_S: Final = 1.0
"""The time after which a broker that is not to hold pulls is asked again, as by Java's brokers that
do not hold them long.
"""
LATER_S: Final = 2.0
"""The time after which topics without a known route, or members, are shared again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerKind:
    """The differences between kinds of consumers."""

    consume_type: str = membership.PUSHES
    is_orderly: bool = False
    has_retries: bool = False
    """True if failed messages come again, through the group's retry topic."""
    allocate: Allocate = averagely


class Membership(Enum):
    """The states of a member; each becomes the next, and a member that never joined may leave."""

    NEW = auto()  # its first heartbeat names what is subscribed
    JOINED = auto()  # a heartbeat follows each change of the subscriptions
    LEAVING = auto()  # it takes no more queues and pulls no more messages


class Group:
    """Everything about a member but what is done with its messages."""

    def __init__(self, group: str, hub: Hub, kind: ConsumerKind) -> None:
        """Check the names of a group and its topics. Raises BadName or ConfigError."""
        config = hub.config
        self.name = wrap(config.namespace, checked_group(group))
        self.hub = hub
        self.kind = kind
        self.is_broadcast = config.message_model == "BROADCASTING"
        self.heartbeats = Heartbeats(hub, self._describe, self.name)
        self.subscriptions: dict[str, Subscription] = {}
        self.held: dict[MessageQueue, HeldQueue] = {}
        self.assigned: set[MessageQueue] | None = None
        """Queues that were chosen by hand: then nothing is shared."""
        self.on_queues_changed: Callable[[list[MessageQueue]], object] | None = None
        """Told all queues that this member has, whenever they have become others."""
        self.puller = Puller(hub, self.name)
        self.rates = HandlingRates(hub.clock)
        self.offsets: Offsets = (
            LocalOffsets(hub, self.name) if self.is_broadcast else BrokerOffsets(hub, self.name)
        )
        self._tell = partial(tell, group=self.name)
        self._start = Start(hub, self.offsets)
        self._locks = Locks(hub, self.name)
        self._members = Members(hub, self.name)
        self._commits = Commits(hub, self.name, self.offsets)
        self._leaving: dict[MessageQueue, tuple[HeldQueue, Job[None]]] = {}
        self._done_before: dict[MessageQueue, int] = {}
        self._sharing: Job[None] | None = None
        self._share_again = False
        self._soon: Timer | None = None
        self._membership = Membership.NEW
        self._told = set[MessageQueue]()
        hub.serves[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] = self._members_changed
        if kind.is_orderly:
            hub.on_lost.append(self._broker_lost)

    @property
    def is_locking(self) -> bool:
        """True if queues are consumed under locks."""
        return self.kind.is_orderly and not self.is_broadcast

    @property
    def _is_leaving(self) -> bool:
        return self._membership is Membership.LEAVING

    # --- what a kind of consumer does ------------------------------------------------------------

    def arrived(self, held_queue: HeldQueue, messages: list[Received]) -> None:
        """Count messages that have come as held."""
        raise NotImplementedError

    def forgotten(self, held_queue: HeldQueue) -> None:
        """Forget what was pulled of this queue and not handed out."""

    # --- its beginning ---------------------------------------------------------------------------

    def subscribe(self, topic: str, wanted: Filter) -> None:
        """Want messages of this topic. Raises BadName."""
        name = wrap(self.hub.config.namespace, checked_topic(topic))
        self.subscriptions[name] = Subscription(name, wanted, self.hub.now_ms)
        self._change_subscriptions()

    def unsubscribe(self, topic: str) -> None:
        """Want no more of them."""
        self.subscriptions.pop(wrap(self.hub.config.namespace, topic), None)
        self._change_subscriptions()

    def _change_subscriptions(self) -> None:
        if self._membership is Membership.JOINED:
            self.hub.spawn(self._tell_subscriptions(), "subscriptions")

    async def _tell_subscriptions(self) -> None:
        await self.heartbeats.beat()
        self.share_soon(0)

    async def begin(self) -> None:
        """Join the group. Raises ClientError when a filter is refused."""
        self.hub.begin()
        if self.kind.has_retries and not self.is_broadcast:
            name = RETRY + self.name
            self.subscriptions[name] = Subscription(name, Filter(), self.hub.now_ms)
        for topic in list(self.subscriptions):  # others may be subscribed meanwhile
            await self._look_up(topic)
        await self._check_filters()
        if not self._is_leaving:
            self._membership = Membership.JOINED
        # Before anything is shared: brokers list only the members that they have heard.
        await self.heartbeats.beat()
        for work, name in (
            (self.heartbeats.watch(), "heartbeats"),
            (self._share_for_ever(), "rebalance"),
            (self._commit_for_ever(), "commits"),
            (self.rates.watch(self.hub), "rates"),
        ):
            self.hub.spawn(work, name)
        if self.is_locking:
            self.hub.spawn(self._renew_for_ever(), "locks")
        self.share_soon(0)

    async def _look_up(self, topic: str) -> None:
        try:
            await self.hub.routes.of(topic)
        except ClientError as error:
            if not topic.startswith(RETRY):  # it is made by the first heartbeat
                self._tell(logging.WARNING, "route-failed", str(error), topic=topic)

    async def _check_filters(self) -> None:
        for each in list(self.subscriptions.values()):
            if each.filter.kind != SQL92:
                continue
            route = await self.hub.routes.of(each.topic)
            body = fastjson.dumps(
                {
                    "clientId": self.hub.client_id,
                    "group": self.name,
                    "subscriptionData": each.as_json(),
                }
            )
            for broker in route.brokers:
                if (address := self.hub.routes.reader(broker)) is not None:
                    await self.hub.demand(
                        address,
                        RequestCode.CHECK_CLIENT_CONFIG,
                        None,
                        body,
                        subject=f"filter {each.filter.text!r} on topic {each.topic}",
                    )

    def _describe(self) -> dict[str, Any]:
        config = self.hub.config
        return membership.consuming(
            self.name,
            [each.as_json() for each in self.subscriptions.values()],
            self.kind.consume_type,
            model=config.message_model,
            from_where=config.consume_from_where,
        )

    # --- sharing ---------------------------------------------------------------------------------

    # RocketMQ spec 2.3, code 40: the member shares at once, and must not answer.
    def _members_changed(self, _: object, request: Command) -> None:
        self._tell(
            logging.INFO,
            "members-changed",
            "receive broker's notification, the consumer group changed, rebalance immediately",
        )
        self.share_soon(0)

    def share_soon(self, seconds: float = SOON_S) -> None:
        """Share the queues again, this soon."""
        if self._soon is None and not self._is_leaving:
            self._soon = self.hub.later(seconds, self._share)

    def _share(self) -> None:
        self._soon = None
        if self._sharing is not None and not self._sharing.is_done:
            # Two rounds at once would take a queue twice; the one under way looks again at its end.
            self._share_again = True
            return
        self._sharing = self.hub.spawn(self._share_all(), "rebalance")

    async def share_now(self) -> None:
        """Share the queues, and wait until that is done."""
        self._share()
        if self._sharing is not None:
            await settled(self._sharing)

    async def _share_for_ever(self) -> None:
        while True:
            # Request 40 is one-way and may be lost, so members are asked for now and then.
            await self.hub.sleep(self.hub.config.rebalance_interval)
            self.share_soon(0)

    async def _share_all(self) -> None:
        again = True
        while again and not self._is_leaving:
            self._share_again = False
            wanted = await self._wanted()
            # Given up before others are taken: another member may wait for these.
            self._drop_all([queue for queue in self.held if queue not in wanted])
            if not await self._take_all(wanted):
                self.share_soon()
            self._tell_queues()
            again = self._share_again

    def _tell_queues(self) -> None:
        """Tell whoever wants to know of queues that have come or gone, lost locks among these."""
        if self.held.keys() != self._told:
            self._told = set(self.held)
            if self.on_queues_changed is not None:
                self.on_queues_changed(sorted(self.held))

    async def _wanted(self) -> set[MessageQueue]:
        """The queues that this member should hold; of a topic that cannot be shared now, those it
        holds.
        """
        # Chosen by the program (``assign``): nothing is shared with other members.
        if self.assigned is not None:
            return self.assigned
        await self.heartbeats.introduce()
        wanted = set[MessageQueue]()
        # Side by side, as all else here: a broker whose machine is off takes seconds to fail.
        shares = {topic: Job(self._share_of(topic)) for topic in list(self.subscriptions)}
        await all_of(list(shares.values()))
        for topic, found in shares.items():
            try:
                share = found.result()
            except (ClientError, BodyError) as error:
                level = logging.DEBUG if topic.startswith(RETRY) else logging.WARNING
                self._tell(
                    level, "rebalance-failed", f"rebalanceByTopic Exception: {error}", topic=topic
                )
                # Its queues are kept until the members are known: giving up would only move them.
                wanted.update(queue for queue in self.held if queue.topic == topic)
                self.share_soon(LATER_S)
                continue
            wanted.update(share)
            self._forget_others(topic, share)
        return wanted

    def _forget_others(self, topic: str, share: list[MessageQueue]) -> None:
        """Leave to others where their queues go on: they may go back as they are told to."""
        others = {each for each in self._done_before if each.topic == topic}.difference(share)
        for queue in others:
            del self._done_before[queue]

    async def _share_of(self, topic: str) -> list[MessageQueue]:
        route = await self.hub.routes.of(topic)
        if self.is_broadcast:
            # RocketMQ spec 4.12: broadcasting, each member has all queues.
            return list(route.readable)
        members = await self._members.of(sorted(route.brokers))
        allocate, own = self.kind.allocate, self.hub.client_id
        return share_of(allocate, own, route.readable, members)

    async def _take_all(self, wanted: set[MessageQueue]) -> bool:
        """Take what is new; whether that has worked out for all."""
        new = [queue for queue in sorted(wanted) if queue not in self.held]
        # One that is still being left would be read at the offset from before its last commit.
        free = [queue for queue in new if queue not in self._leaving]
        granted = await self._locked(free) if self.is_locking else dict.fromkeys(free)
        taken = [
            self.hub.spawn(self._take(queue, locked_ns), f"taking {queue}")
            for queue, locked_ns in granted.items()
        ]
        await all_of(taken)
        return sum(each.result() for each in taken) == len(new)

    async def _locked(self, queues: list[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The queues that are this member's now, and when it asked for their locks."""
        # When it asked, not when it was told: the broker counts its minute from somewhere between.
        asked_ns = self.hub.clock.monotonic_ns()
        jobs = []
        for broker in sorted({queue.brokerName for queue in queues}):
            there = [queue for queue in queues if queue.brokerName == broker]
            jobs.append(self.hub.spawn(self._locks.lock(there), f"locks of {broker}"))
        await all_of(jobs)
        granted = sorted(queue for job in jobs for queue in job.result() or ())
        return dict.fromkeys(granted, asked_ns)

    async def _take(self, queue: MessageQueue, locked_ns: int | None) -> bool:
        try:
            offset = await self._first_offset(queue)
        except (ClientError, BodyError) as error:
            self._tell(
                logging.WARNING,
                "rebalance-failed",
                f"doRebalance, compute offset failed: {error}",
                topic=queue.topic,
                queue=queue,
            )
            return False
        # It may have begun to leave meanwhile, and nobody would give this queue up again.
        if self._is_leaving:
            return False
        held_queue = HeldQueue(queue, offset)
        held_queue.locked_ns = locked_ns
        self.held[queue] = held_queue
        self._tell(
            logging.INFO,
            "queue-added",
            f"doRebalance, add a new mq, {queue} from {offset}",
            topic=queue.topic,
            queue=queue,
        )
        self.pull_again(held_queue)
        return True

    async def _first_offset(self, queue: MessageQueue) -> int:
        known = self._done_before.get(queue)
        if known is None:
            return await self._start.of(queue)
        # A broker that was restarted may have forgotten the last seconds, or all.
        # Whichever is further: what this member has done before must not come once more.
        offset = max(known, await self.offsets.read(queue) or 0)
        self._done_before.pop(queue, None)
        return offset

    # --- giving queues up ------------------------------------------------------------------------

    def _drop_all(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            held_queue = self.held.pop(queue)
            self._stop(held_queue)
            self._tell(
                logging.INFO,
                "queue-dropped",
                f"doRebalance, remove unnecessary mq, {queue}",
                topic=queue.topic,
                queue=queue,
            )
            self._leave_behind(held_queue, self._give_up(held_queue))

    def _stop(self, held_queue: HeldQueue) -> None:
        held_queue.is_dropped = True
        if held_queue.pulling is not None:
            held_queue.pulling.cancel(Stopped())
        held_queue.wake()
        self.forgotten(held_queue)

    def _leave_behind(self, held_queue: HeldQueue, work: Any) -> None:
        """Do the rest before the queue may be taken again."""
        job = self.hub.spawn(work, f"leaving {held_queue.queue}")
        if not job.is_done:
            self._leaving[held_queue.queue] = held_queue, job
            job.then(lambda _: self._left(held_queue))

    def _left(self, held_queue: HeldQueue) -> None:
        self._leaving.pop(held_queue.queue, None)
        self.share_soon(0)

    async def _give_up(self, held_queue: HeldQueue) -> None:
        while held_queue.is_busy:
            idle = held_queue.idle()
            if self.is_locking:
                await self._renew([held_queue])
                # The handler may take long, and the lock is to be kept till it ends.
                self.hub.later(RENEW_S, held_queue.wake_idle)
            await idle
        # RocketMQ spec 4.2: the offset first, so that the next owner begins behind what is done.
        await self._commits.write([held_queue])
        # After the commit: whoever gets the lock next reads the offset.
        if self.is_locking and not held_queue.is_abandoned:
            await self._locks.unlock(held_queue.queue)

    # --- locks -----------------------------------------------------------------------------------

    async def _renew_for_ever(self) -> None:
        while True:
            await self.hub.sleep(RENEW_S)
            await self._renew(list(self.held.values()))

    async def _renew(self, queues: list[HeldQueue]) -> None:
        for broker in {held_queue.queue.brokerName for held_queue in queues}:
            there = [held_queue for held_queue in queues if held_queue.queue.brokerName == broker]
            asked_ns = self.hub.clock.monotonic_ns()
            granted = await self._locks.lock([held_queue.queue for held_queue in there])
            # The broker did not answer: a lock that was not renewed still lasts for some time.
            if granted is None:
                continue
            for held_queue in there:
                if held_queue.queue in granted:
                    held_queue.locked_ns = asked_ns
                else:
                    self._lock_lost(held_queue)

    def _broker_lost(self, address: str) -> None:
        """Let go of its queues: a restarted broker knows of no locks, and others may have them."""
        for held_queue in list(self.held.values()):
            if self.hub.routes.master(held_queue.queue.brokerName) == address:
                self._lock_lost(held_queue)

    def _lock_lost(self, held_queue: HeldQueue) -> None:
        """Take it again from the beginning; what is done already is not done twice."""
        # At once: the broker may have given it to somebody else already.
        held_queue.locked_ns = None
        if self.held.get(held_queue.queue) is not held_queue:
            return
        del self.held[held_queue.queue]
        self._stop(held_queue)
        self._tell(
            logging.WARNING,
            "lock-lost",
            f"the message queue locked no more, {held_queue.queue}",
            topic=held_queue.queue.topic,
            queue=held_queue.queue,
        )
        # Without a commit, as the queue may be another member's already.
        self._leave_behind(held_queue, self._remember(held_queue))
        self.share_soon()

    async def _remember(self, held_queue: HeldQueue) -> None:
        while held_queue.is_busy:
            await held_queue.idle()
        self._done_before[held_queue.queue] = held_queue.commit_offset

    # --- pulling ---------------------------------------------------------------------------------

    def pull_again(self, held_queue: HeldQueue) -> None:
        """Pull from the queue's present offset and drop the pull under way."""
        # Its answer would be of the offset from before.
        if held_queue.pulling is not None:
            held_queue.pulling.cancel(Stopped())
        if not held_queue.is_dropped:
            held_queue.pulling = self.hub.spawn(
                self._pull_for_ever(held_queue), f"pulling {held_queue.queue}"
            )

    def _has_room(self, held_queue: HeldQueue) -> bool:
        config = self.hub.config
        return (
            not held_queue.is_paused
            and held_queue.count < config.pull_threshold_for_queue
            and held_queue.nbytes < config.pull_threshold_size_for_queue
            and (
                self.kind.is_orderly
                # A message that hangs holds the commit, and all behind it would come twice after a
                # restart. In order there is nothing ahead of the one at work.
                or held_queue.span < config.consume_concurrently_max_span
                or not held_queue.count
            )
        )

    async def _pull_for_ever(self, held_queue: HeldQueue) -> None:
        config = self.hub.config
        while not held_queue.is_dropped:
            if not self._has_room(held_queue):
                await held_queue.change()
                continue
            subscription = self.subscriptions.get(held_queue.queue.topic)
            wanted = subscription.filter if subscription is not None else Filter()
            began_ns = self.hub.clock.monotonic_ns()
            try:
                pulled = await self.puller.pull(
                    held_queue.queue,
                    held_queue.next_offset,
                    wanted,
                    most=config.pull_batch_size,
                    suspend_s=config.broker_suspend_max_time,
                    timeout_s=config.consumer_pull_timeout,
                    # Each pull commits beside, as Java's does; the task is for queues with nothing
                    # to pull.
                    commit=0 if self.is_broadcast else held_queue.commit_offset,
                )
            except ClientError as error:
                self._tell(
                    logging.WARNING,
                    "pull-failed",
                    f"execute the pull request exception: {error}",
                    topic=held_queue.queue.topic,
                    queue=held_queue.queue,
                )
                # The broker may have moved, or be gone from the route.
                self.hub.routes.doubt(held_queue.queue.topic)
                await self.hub.sleep(config.pull_time_delay_when_exception)
            else:
                if pulled.messages:
                    took_ns = self.hub.clock.monotonic_ns() - began_ns
                    self.rates.pulled(held_queue.queue.topic, took_ns, len(pulled.messages))
                self._take_in(held_queue, pulled)
                # Without a long poll this loop would ask as fast as the broker answers.
                if pulled.status is PullStatus.NO_NEW_MSG and not config.broker_suspend_max_time:
                    await self.hub.sleep(PULL_S)

    def _take_in(self, held_queue: HeldQueue, pulled: Pulled) -> None:
        # RocketMQ spec 4.3, code 21: the broker says where the queue goes on.
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            self._tell(
                logging.WARNING,
                "offset-illegal",
                f"the pull request offset illegal, {held_queue.queue}: {held_queue.next_offset}, "
                f"go on at {pulled.next_offset}",
                topic=held_queue.queue.topic,
                queue=held_queue.queue,
            )
            self.forgotten(held_queue)
            held_queue.seek(pulled.next_offset)
            return
        held_queue.add(pulled.messages, pulled.next_offset)
        if pulled.messages:
            self.arrived(held_queue, pulled.messages)

    def seek(self, held_queue: HeldQueue, offset: int) -> None:
        """Go on there; what was pulled is forgotten."""
        self.forgotten(held_queue)
        held_queue.seek(offset)
        self.pull_again(held_queue)

    def pause(self, queues: Collection[MessageQueue], *, is_paused: bool) -> None:
        """Pull no more of these queues, or of all, or go on."""
        namespace = self.hub.config.namespace
        named = {each._replace(topic=wrap(namespace, each.topic)) for each in queues}
        for queue, held_queue in self.held.items():
            if not named or queue in named:
                held_queue.is_paused = is_paused
                held_queue.wake()

    # --- commits ---------------------------------------------------------------------------------

    async def _commit_for_ever(self) -> None:
        while True:
            await self.hub.sleep(self.hub.config.persist_consumer_offset_interval)
            await self.commit()

    async def commit(self) -> None:
        """Tell how far all queues are done; what fails is told in the log, and tried again."""
        await self._commits.write(list(self.held.values()))

    # --- its end ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Pull no more."""
        self._membership = Membership.LEAVING
        self._tell(logging.INFO, "closing", "the consumer shuts down")
        for held_queue in self.held.values():
            if held_queue.pulling is not None:
                held_queue.pulling.cancel(Stopped())

    async def leave(self) -> None:
        """Commit, give the locks back, and tell the brokers, in this order.

        A queue whose message is still being handled keeps its lock: it ends in a minute.
        """
        self._drop_all(list(self.held))
        leaving = list(self._leaving.values())
        for held_queue, _ in leaving:
            if held_queue.is_busy:
                held_queue.is_abandoned = True
                held_queue.rest()
        await all_of([job for _, job in leaving])
        await self.heartbeats.leave(consumerGroup=self.name)
