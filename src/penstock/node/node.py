"""A node as a whole: the topics of one data path, without a port.

Daemons open their ports over it: nsqd NSQ's, mqbroker RocketMQ's, either of them both.
"""

from __future__ import annotations

import logging

from penstock import lane
from penstock.broker.broker import Broker
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.net.budget import UNREAD_S, Memory, MemoryQueue
from penstock.net.vitals.stand_in import StandIn
from penstock.net.vitals.vitals import HEALTHY, Vitals
from penstock.node.commits import Commits
from penstock.node.dead_letters import DeadLetters, Letters
from penstock.node.dialect import Dialect
from penstock.node.followers import Followers
from penstock.node.group_retention import GroupRetention
from penstock.node.housekeeping import Housekeeping
from penstock.node.lease import Lease
from penstock.node.log_groups import LogGroups
from penstock.node.node_metrics import NodeMetrics
from penstock.node.node_options import NodeOptions
from penstock.node.registry import Registry, TopicList
from penstock.node.replicas import Replicas
from penstock.storage.files.patient_disk import PatientDisk

logger = logging.getLogger("penstock.node")


class Node:
    """The broker of a data path, group commit, housekeeping, and the memory of all connections."""

    def __init__(
        self,
        broker: Broker,
        options: NodeOptions,
        clock: Clock,
        memory: Memory,
        topic_list: TopicList,
        letters: Letters,
        program: str = "nsqd",
    ) -> None:
        """Take over the broker, which ``close`` closes; metrics name the program."""
        self.broker = broker
        self.clock = clock
        self.memory = memory
        self.turns = MemoryQueue(memory.requests)
        self.answer_turns = MemoryQueue(memory.answers, UNREAD_S)
        self.dialects: list[Dialect] = []
        """The dialects that run now and have groups to show."""
        self.topic_list = topic_list
        wanted = options.replicas()
        self.followers = Followers(clock)
        self.lease = Lease(clock) if options.needs_lease else None
        self.replicas = None
        """The copies and the lease that an OK waits for; None where it waits for neither."""
        if wanted.acked or self.lease is not None:
            self.replicas = Replicas(clock, wanted, self.followers, self.lease)
        disk = broker.store.disk
        self._disk = disk if isinstance(disk, PatientDisk) else None
        hand = self._disk.hand if self._disk is not None else None
        self.commits = Commits(clock, options.durability, options.sync_every, self.replicas, hand)
        self.registry = Registry(broker, self.commits, topic_list, clock)
        self.log_groups = LogGroups(clock, options.group_retention)
        dead_letters = DeadLetters(self.registry, self.commits, clock, letters)
        retention = GroupRetention(
            broker.topics, self.log_groups, options.group_retention, clock.monotonic_ns()
        )
        self.housekeeping = Housekeeping(
            broker, self.commits, dead_letters, retention, clock, options.sync_timeout
        )
        self.housekeeping.ticks.append(topic_list.tick)
        self.housekeeping.ticks.append(
            self.followers.forget_silent if self.replicas is None else self.replicas.tick
        )
        self.vitals = Vitals(program, clock, health=lambda: self.health)
        self.vitals.checks.append(self._missing)
        self.stand_in = StandIn(self.vitals, lambda: 0 if hand is None else hand.held_up_since_ns)
        metrics = NodeMetrics(
            broker,
            lambda: self.health,
            memory,
            self.log_groups,
            self.dialects,
            options.e2e_processing_latency_percentiles,
        )
        self.vitals.sources.append(metrics.source)
        self._is_started = False

    def start(self) -> None:
        """Begin housekeeping, which deletes consumed messages. Call this once every daemon over the
        node is open: some of them keep messages that no channel or group holds.
        """
        logger.info("lane: %s", lane.meaning())
        self.housekeeping.start()
        self.vitals.start()
        self._is_started = True
        if self._disk is not None:
            self._disk.hand.watch()
            self.stand_in.start()

    @property
    def _disk_problem(self) -> StorageError | None:
        """The error of a disk that does not answer."""
        return None if self._disk is None else self._disk.problem(self.broker.store.data_path)

    def _missing(self) -> list[str]:
        """Lines while the node cannot do its work; files damaged in the past are not a reason."""
        if not self._is_started:
            return ["NOK - not all ports are open yet"]
        if self.lease is not None and (reason := self.lease.refusal):
            return [f"NOK - {reason}"]
        error = self._disk_problem or self.commits.health or self.broker.problem
        return [] if error is None else [f"NOK - {error}"]

    @property
    def started_ns(self) -> int:
        """The start by the wall clock."""
        return self.vitals.started_ns

    @property
    def health(self) -> str:
        """``OK``, or what is wrong with the disk."""
        error = self._disk_problem or self.commits.health or self.broker.health
        return HEALTHY if error is None else f"NOK - {error}"

    async def close(self) -> None:
        """Write all down and let go of the data path, after the daemons over the node have ended.

        What was acknowledged is kept.
        """
        # First: its ticks would meet files that are closed.
        self.housekeeping.stop()
        self.vitals.close()
        self.stand_in.stop()
        if self._disk is not None:
            self._disk.hand.rest()
        await self.commits.settle()
        try:
            await self.topic_list.write()
        except StorageError as error:
            # Logged, not raised: the log and its journals have yet to be closed.
            logger.critical("failed to persist metadata - %s", error)
        try:
            self.broker.close()
        except StorageError as error:
            logger.critical("failed to save everything - %s", error)
