"""The nodes that hold the topics: bounds of their logs, group commits, and nodes that went away.

Nodes are asked all at once, each for all of its topics in one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Final, NamedTuple, TypeAlias

from penstock.core.ids import is_another, log_of
from penstock.log_api.errors import (
    GroupInUse,
    LogError,
    NodeError,
    NodeUnreachable,
    NoDialect,
    NoLog,
    TopicNotFound,
)
from penstock.log_api.log_client import Changes
from penstock.spark import planning
from penstock.spark.access import bounds_in, client, no_dialect, no_log, persist, secured, why
from penstock.spark.errors import GroupTakenError, SourceError
from penstock.spark.nodes.at_once import at_once
from penstock.spark.nodes.directory import Directory
from penstock.spark.nodes.lost_places import LostPlaces
from penstock.spark.offsets import Bounds, Place, renames
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce

# Nothing is read there any more, so a query does not wait long: a warning says what is left.
_GIVE_UP_S: Final = 2.0
_SOME_TOPICS: Final = 100
_MANY_TOPICS: Final = 16
"""With fewer topics, to ask for their bounds costs no more than to ask what has changed."""
_Commit: TypeAlias = Callable[[str, Mapping[str, Mapping[int, int]]], dict[str, NodeError]]


class _Answer(NamedTuple):
    """The last answer of a node: the bounds of these topics, as they were at this revision."""

    topics: tuple[str, ...]
    revision: int
    bounds: Mapping[Place, Bounds]


class Cluster:
    """The nodes behind one source's options. Made lazily: it is never pickled."""

    def __init__(self, settings: SourceSettings, directory: Directory | None = None) -> None:
        self._settings = settings
        self._access = settings.access
        self._directory = directory or Directory(settings)
        self._address_of: dict[str, str] = {}
        self._once = WarnOnce()
        self._strays = LostPlaces(settings, self._once)
        self._has_strays = False
        self._no_changes: set[str] = set()
        self._answers: dict[str, _Answer] = {}
        self._together: tuple[list[Mapping[Place, Bounds]], dict[Place, Bounds]] = ([], {})

    def bounds(
        self,
        reached: Mapping[Place, int] | None = None,
        logs: Mapping[Place, str] | None = None,
        *,
        required: bool = True,
    ) -> dict[Place, Bounds]:
        """Every queue of every topic with its first offset and its end, as it is now.

        ``reached`` is how far the caller has read: of places in it that no known node has, the
        nodes are asked where they were, unless another node has their log, by its id in ``logs``.
        Raises SourceError when a topic is nowhere (one that is not
        ``required`` is left out), a node does not answer, or, unless options allow it,
        messages that were not read are out of reach.
        """
        answers = self._ask_all()
        topics_at = self._directory.topics_at()
        before, bounds = self._together
        if not _are_same(answers, before):
            bounds = _together(answers)
            self._together = answers, bounds
        # Kept for nodes that leave their directory: they are asked where they were.
        self._address_of |= {place.node: bound.address for place, bound in bounds.items()}
        # A node may have another name since; the ids of its logs stay.
        moved = renames(reached or {}, logs or {}, bounds)
        missing = {
            place: offset
            for place, offset in (reached or {}).items()
            if place not in bounds and place not in moved and self.reads(place.topic)
        }
        self._has_strays = bool(missing)
        if missing:
            known = {secured(address, self._access) for address in topics_at}
            bounds = bounds | self._strays.look_for(missing, self._address_of, known)
        self._strays.saw(bounds)
        there = {place.topic for place in (*bounds, *self._strays.away(missing))}
        if required:
            self._require_topics(there, topics_at, missing)
        return bounds

    def has_news(self) -> bool:
        """False if the next ``bounds`` would say what the last one did; True where it has asked
        nodes that are not known any more.
        """
        return self._has_strays or not _are_same(self._ask_all(), self._together[0])

    def _ask_all(self) -> list[Mapping[Place, Bounds]]:
        """The answer of each node, all asked at once."""
        topics_at = self._directory.topics_at()
        asked = [(address, tuple(topics)) for address, topics in topics_at.items() if topics]
        return [*at_once(self._queues, asked).values()]

    def bounds_of_planned(
        self,
        start: Mapping[Place, int],
        end: Mapping[Place, int],
        logs: Mapping[Place, str] | None = None,
    ) -> dict[Place, Bounds]:
        """``bounds`` for a batch that was planned up to ``end`` and is not read."""
        reached = {place: start.get(place, 0) for place in end}
        self._strays.planned({place: at for place, at in end.items() if at > reached[place]})
        return self.bounds(reached, logs)

    def gone(self, places: Iterable[Place]) -> list[Place]:
        """The places whose node answers, and has their topic no more."""
        return self._strays.gone(places)

    def reads(self, topic: str) -> bool:
        """True if the options ask for a topic."""
        return self._settings.reads(topic)

    def commit(self, offsets: Mapping[Place, int], group: str, owner: str = "") -> None:
        """Move the group that holds retention to these offsets, on every node.

        Raises GroupTakenError when another owner moves it, and SourceError when a node does not.
        """
        self._on_nodes(
            offsets,
            group,
            lambda address, topics: client(address, self._access).commit_all(
                group, topics, owner=owner
            ),
        )

    def claim(self, places: Iterable[Place], group: str, owner: str) -> None:
        """Make the group at the start of each log where it is not there yet.

        Raises GroupTakenError when it is there and another owner moves it.
        """
        self._on_nodes(
            # The offsets are not sent: a group that is there stays where it is.
            dict.fromkeys(places, 0),
            group,
            lambda address, topics: client(address, self._access).commit_all(
                group, {topic: {} for topic in topics}, owner=owner
            ),
        )

    def without_group(self, places: Iterable[Place], group: str) -> list[Place]:
        """The places of topics that are there and do not have the group. Raises SourceError."""
        on_node: dict[str, list[Place]] = {}
        for place in places:
            on_node.setdefault(place.node, []).append(place)

        def ask(node: str) -> list[Place]:
            address = secured(self._plain_address(node), self._access)
            topics = sorted({place.topic for place in on_node[node]})
            try:
                found = persist(
                    lambda: client(address, self._access).offsets_of(topics),
                    f"node {node} cannot be reached for {_named('topic', topics)}",
                    self._settings.timeout_s,
                )
            except LogError as error:
                raise SourceError(f"node {node}: {error.status} {error.reason}") from None
            told = {topic: each for topic, each in found.items() if each is not None}
            return [
                place
                for place in on_node[node]
                if place.topic in told and group not in told[place.topic].groups
            ]

        return [place for missing in at_once(ask, on_node).values() for place in missing]

    def give_up(self, places: Iterable[Place], group: str) -> None:
        """Delete the group where it is not wanted any more, so that it does not hold the log.

        A node that does not answer is not waited for: a warning says what to do there.
        """
        topics_on: dict[str, set[str]] = {}
        for place in places:
            topics_on.setdefault(place.node, set()).add(place.topic)
        access = self._access.hurried(_GIVE_UP_S)
        for node, topics in topics_on.items():
            try:
                address = secured(self._plain_address(node), access)
                # One try: a group that stays costs disk space, and a query must not end for that.
                failed = client(address, access).delete_groups(group, sorted(topics))
                left = [each for each in failed.values() if not _is_not_there(each)]
                if left:
                    raise left[0]
            except (NodeError, SourceError) as error:
                self._once.warn(
                    f"group {group} still holds the log of {_named('topic', sorted(topics))} on "
                    f"node {node}, which is not read any more: {why(error)}. Delete it there with "
                    "POST /log/group/delete?topic=<topic>&group=<group>"
                )

    def _plain_address(self, node: str) -> str:
        return self._address_of.get(node, node)

    def _on_nodes(self, offsets: Mapping[Place, int], group: str, commit: _Commit) -> None:
        on_node: dict[str, dict[str, dict[int, int]]] = {}
        for place, offset in offsets.items():
            topics = on_node.setdefault(place.node, {})
            topics.setdefault(place.topic, {})[place.queue] = offset

        def ask(node: str) -> dict[str, NodeError]:
            address = secured(self._plain_address(node), self._access)
            try:
                return _patiently(commit, address, on_node[node])
            except NodeError as error:
                return dict.fromkeys(on_node[node], error)

        failures = [
            (node, topic, error)
            for node, failed in at_once(ask, on_node).items()
            for topic, error in failed.items()
        ]
        # A group in use is told before what is merely out of order.
        for node, topic, error in sorted(failures, key=lambda f: not isinstance(f[2], GroupInUse)):
            if isinstance(error, GroupInUse):
                raise GroupTakenError(_taken(group, topic, node, error)) from None
            raise SourceError(f"topic {topic} on node {node}: {why(error)}") from error

    def _queues(self, asked: tuple[str, tuple[str, ...]]) -> Mapping[Place, Bounds]:
        """The topics' queues on one node; those it does not have are left out.

        The answer before, the same object, where nothing has changed since.
        """
        address, topics = asked
        secure = secured(address, self._access)
        revision, changed = self._changes(address, secure, topics)
        known = self._answers.get(address)
        if known is None or known.topics != topics or changed is None:
            found: Mapping[Place, Bounds] = self._ask(address, secure, topics)
        elif not (some := tuple(topic for topic in topics if topic in changed)):
            found = known.bounds
        else:
            others = {each: at for each, at in known.bounds.items() if each.topic not in changed}
            found = others | self._ask(address, secure, some)
        if known is not None and known.bounds == found:
            found = known.bounds
        self._answers[address] = _Answer(topics, revision, found)
        return found

    def _changes(self, address: str, secure: str, topics: Sequence[str]) -> Changes:
        """The topics of a node that have changed since it was asked last, if it can say so."""
        if len(topics) < _MANY_TOPICS or self._access.dialect or address in self._no_changes:
            return Changes(0, None)
        known = self._answers.get(address)
        try:
            return client(secure, self._access).changes(known.revision if known else 0)
        except NodeError as error:  # a silent node is waited for by the next request
            if isinstance(error, NoLog):  # it is of an earlier version
                self._no_changes.add(address)
            return Changes(0, None)

    def _ask(self, address: str, secure: str, topics: Sequence[str]) -> dict[Place, Bounds]:
        try:
            found = persist(
                lambda: client(secure, self._access).offsets_of(topics),
                f"node {address} cannot be reached for {_named('topic', topics)}",
                self._settings.timeout_s,
            )
        except NoLog as error:
            if not self._settings.skip_without_log:
                raise SourceError(no_log(error)) from None
            self._once.warn(
                f"node {address} has no log to read (it is Go's nsqd, or none at all) and is left "
                f"out: its messages of {_named('topic', topics)} are not read"
            )
            return {}
        except NoDialect as error:
            raise SourceError(no_dialect(error)) from None
        except LogError as error:
            raise SourceError(f"node {address}: {error.status} {error.reason}") from None
        return bounds_in(found, secure)

    def _require_topics(
        self,
        there: set[str],
        topics_at: Mapping[str, Sequence[str]],
        missing: Mapping[Place, int],
    ) -> None:
        """Raise SourceError for a topic that no node has; of ``missing`` some was read.

        One that was deleted while it was read is told, without failOnDataLoss.
        """
        for topic in () if self._settings.finds_topics else self._settings.topics:
            if topic in there:
                continue
            read = sorted(place for place in missing if place.topic == topic)
            if not read:
                asked = [address for address, topics in topics_at.items() if topic in topics]
                raise SourceError(self._nowhere(topic, asked))
            said = planning.deleted(read[0], missing[read[0]])
            if self._settings.fail_on_data_loss:
                raise SourceError(said)
            self._once.warn(
                f"{said.partition('. Once ')[0]}. Skipped, as failOnDataLoss=false: once it is "
                "there again, it is read from its start"
            )

    def _nowhere(self, topic: str, asked: Sequence[str]) -> str:
        """The sentence for a topic that no node has."""
        if asked:
            return f"topic {topic} does not exist on {_any_of('node', asked)}"
        return f"no node with topic {topic} is known to {_any_of(*self._settings.directory)}"


def _are_same(answers: Sequence[object], before: Sequence[object]) -> bool:
    """True if these are the same objects."""
    return len(answers) == len(before) and all(map(is_, answers, before))


def _together(answers: Iterable[Mapping[Place, Bounds]]) -> dict[Place, Bounds]:
    """The places of all nodes; a node may be asked at two addresses.

    Raises SourceError for two nodes of one name, of which only one would be read, and for two nodes
    with one log, of which both would be.
    """
    bounds: dict[Place, Bounds] = {}
    owners: dict[tuple[str, int, str], Place] = {}
    for place, bound in (each for answer in answers for each in answer.items()):
        other = bounds.setdefault(place, bound)
        # One name and two logs: a reader's offsets would be applied to the wrong one.
        if is_another(other.log, bound.log):
            raise SourceError(
                f"two nodes call themselves {place.node}, at {other.address} and {bound.address}: "
                "give each another --broadcast-address or HTTP port"
            )
        log = log_of(bound.log)
        owner = owners.setdefault((place.topic, place.queue, log), place) if log else place
        if owner != place:
            raise SourceError(
                f"nodes {owner.node} and {place.node} have one log of topic {place.topic} (id "
                f"{log}): the data path of one is a copy of the other's, whose messages would be "
                "read twice. Name one of the two in nsqd_http_address, or stop one and start it on "
                "an empty data path"
            )
    return bounds


def _patiently(
    commit: _Commit, address: str, topics: Mapping[str, Mapping[int, int]]
) -> dict[str, NodeError]:
    """Commit in all topics; where the node is silent for too long, in some after the other.

    Nodes of earlier versions sync each new group by itself, which takes them long for many.
    """
    try:
        return commit(address, topics)
    except NodeUnreachable:
        if len(topics) <= _SOME_TOPICS:
            raise
    failed: dict[str, NodeError] = {}
    names = list(topics)
    for first in range(0, len(names), _SOME_TOPICS):
        some = names[first : first + _SOME_TOPICS]
        failed |= commit(address, {topic: topics[topic] for topic in some})
    return failed


def _is_not_there(error: NodeError) -> bool:
    return isinstance(error, TopicNotFound) or (isinstance(error, LogError) and error.status == 404)


def _taken(group: str, topic: str, node: str, error: GroupInUse) -> str:
    """The sentence for a group that another query has."""
    return (
        f"group {group} is in use by another query (owner {error.owner} moved it in topic {topic} "
        f"on node {node} {error.seconds:.0f} s ago): give each query a group by itself. If that "
        "query has ended, start this one a minute after it"
    )


def _named(kind: str, names: Sequence[str]) -> str:
    """A phrase: ``topic a``, ``topics a, b`` or ``topics a, b, c and 7 more``."""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{kind} {shown}" if len(names) == 1 else f"{kind}s {shown}"


def _any_of(kind: str, addresses: Sequence[str]) -> str:
    return (f"{kind} " if len(addresses) == 1 else "any of ") + ", ".join(addresses)
