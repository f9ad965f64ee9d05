"""The alerts, with series of figures that make each of them fire, and others that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.core.metrics import (
    mqbroker,
    mqnamesrv,
    node,
    nsqadmin,
    nsqd,
    nsqlookupd,
    process,
    replication,
)

JOBS: Final = 'job=~"nsqd|mqbroker|nsqlookupd|mqnamesrv|nsqadmin"'
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

Series = Mapping[str, str]
"""Values a minute, in the notation of `promtool test rules`, by series."""


@dataclass(frozen=True)
class Settings:
    """The limits of the alerts."""

    disk_free: float = 0.1
    """The part of the disk that must be free."""
    backlog: int = 10_000
    """Messages of a channel or group that need no attention even if they grow."""
    speed: int = 1
    """The number by which all times are divided, for tests."""

    def time(self, seconds: int) -> str:
        """A duration as Prometheus reads it."""
        seconds //= self.speed
        for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
            if seconds and seconds % size == 0:
                return f"{seconds // size}{unit}"
        return f"{seconds}s"


class Alert(NamedTuple):
    """One alert. ``wait`` is in seconds; the texts are Prometheus' templates."""

    name: str
    severity: str
    expr: str
    wait: int
    summary: str
    remedy: str
    fires: Series
    quiet: Series


class Group(NamedTuple):
    """Alerts about one thing."""

    name: str
    alerts: tuple[Alert, ...]


def groups(settings: Settings | None = None) -> tuple[Group, ...]:
    """All alerts."""
    s = settings or Settings()
    return (
        Group("programs", _programs(s)),
        Group("storage", _storage(s)),
        Group("copies", _copies()),
        Group("consumers", _consumers(s)),
        Group("rocketmq", _rocketmq(s)),
        Group("directory", _directory(s)),
        Group("pipelines", _pipelines()),
    )


def _of(metric_name: str, more: str = "") -> str:
    """A series of one program."""
    return f'{metric_name}{{job="nsqd",instance="a:4151"{more}}}'


_CHANNEL: Final = ',topic="t",channel="c"'
_GROUP: Final = ',topic="t",group="g"'
_PIPELINE: Final = ',pipeline="p",id="1"'
_ALWAYS: Final = "x120"
_GROWS: Final = f"20000+100{_ALWAYS}"
_STILL: Final = f"20000+0{_ALWAYS}"
_ZERO: Final = f"0+0{_ALWAYS}"
_ONE: Final = f"1+0{_ALWAYS}"
_TWO: Final = f"2+0{_ALWAYS}"
_HERE: Final = "{{ $labels.instance }}"
_QUEUE: Final = "{{ $labels.topic }}/{{ $labels.channel }}"
_READERS: Final = "{{ $labels.group }} of {{ $labels.topic }}"


def _programs(s: Settings) -> tuple[Alert, ...]:
    return (
        Alert(
            "PenstockDown", "critical", f"up{{{JOBS}}} == 0", _MINUTE,
            "{{ $labels.job }} at {{ $labels.instance }} does not answer",
            "See if the program runs and what its log ends with; start it again on its data path.",
            {_of("up"): _ZERO}, {_of("up"): _ONE},
        ),
        Alert(
            "PenstockNotReady", "warning",
            f"{process.READY.name} == 0 unless on (job, instance) "
            f"{replication.FOLLOWING.name} == 1", 5 * _MINUTE,
            "{{ $labels.job }} at {{ $labels.instance }} is not ready",
            "GET /ready of it has a line for each reason.",
            {_of(process.READY.name): _ZERO},
            {_of(process.READY.name): _ZERO, _of(replication.FOLLOWING.name): _ONE},
        ),
        Alert(
            "PenstockRestarts", "warning",
            f"changes({process.START_TIME.name}{{{JOBS}}}[{s.time(30 * _MINUTE)}]) > 2", 0,
            "{{ $labels.job }} at {{ $labels.instance }} starts again and again",
            "The end of its log before each start says why it ended; the kernel's log, whether it "
            "was killed for want of memory.",
            {_of(process.START_TIME.name): f"0+600{_ALWAYS}"},
            {_of(process.START_TIME.name): _ONE},
        ),
        Alert(
            "FileHandlesShort", "warning",
            f"{process.OPEN_FILES.name}{{{JOBS}}} / {process.OPEN_FILES_MAX.name} > 0.8",
            5 * _MINUTE, "{{ $labels.instance }} has used 80 % of its file handles",
            "Raise the limit (ulimit -n, LimitNOFILE) or close connections that nobody needs.",
            {_of(process.OPEN_FILES.name): f"900+0{_ALWAYS}",
             _of(process.OPEN_FILES_MAX.name): f"1000+0{_ALWAYS}"},
            {_of(process.OPEN_FILES.name): f"100+0{_ALWAYS}",
             _of(process.OPEN_FILES_MAX.name): f"1000+0{_ALWAYS}"},
        ),
        Alert(
            "MemoryLimitReached", "warning",
            f"increase({node.REQUEST_REFUSED.name}[{s.time(5 * _MINUTE)}]) > 0 or "
            f"increase({node.ANSWER_REFUSED.name}[{s.time(5 * _MINUTE)}]) > 0", 0,
            f"{_HERE} holds up requests or answers at its memory limit",
            "Raise --max-request-memory or --max-answer-memory, or find the client that sends or "
            "reads so slowly.",
            {_of(node.REQUEST_REFUSED.name): f"0+1{_ALWAYS}"},
            {_of(node.REQUEST_REFUSED.name): _ONE},
        ),
    )  # fmt: skip


def _storage(s: Settings) -> tuple[Alert, ...]:
    free, size = node.DISK_FREE.name, node.DISK_SIZE.name
    size_series = {_of(size): f"1000+0{_ALWAYS}"}
    return (
        Alert(
            "NodeUnhealthy", "critical", f"{node.HEALTHY.name} == 0", _MINUTE,
            f"{_HERE} cannot write, or has damaged files",
            "GET /ping of it says what is wrong.",
            {_of(node.HEALTHY.name): _ZERO}, {_of(node.HEALTHY.name): _ONE},
        ),
        Alert(
            "MessagesLost", "critical", f"{node.TOPIC_DAMAGES.name} > 0", 0,
            f"{_HERE}: files of the topic {{{{ $labels.topic }}}} are damaged",
            "GET /damage says where and how many messages are lost; accept it when you have seen "
            "to it.",
            {_of(node.TOPIC_DAMAGES.name, ',topic="t"'): _ONE},
            {_of(node.TOPIC_DAMAGES.name, ',topic="t"'): _ZERO},
        ),
        Alert(
            "DiskNearlyFull", "critical", f"{free} < {s.disk_free:g} * {size}", 5 * _MINUTE,
            f"{_HERE}: {{{{ $value | humanize1024 }}}}B are left on the disk of the data path",
            "Find the channel or group that holds the log and let it catch up, lower --retention-*,"
            " or add disk. Publishes are refused when it is full.",
            {_of(free): f"90+0{_ALWAYS}", **size_series},
            {_of(free): f"110+0{_ALWAYS}", **size_series},
        ),
        Alert(
            "DiskFullSoon", "warning",
            f"predict_linear({free}[{s.time(_HOUR)}], {4 * _HOUR // s.speed}) < 0 "
            f"and {free} < 0.5 * {size}", 30 * _MINUTE,
            f"{_HERE}: the disk of the data path is full within four hours at this rate",
            "As for DiskNearlyFull, while there is time.",
            {_of(free): f"400-2{_ALWAYS}", **size_series},
            {_of(free): f"400+0{_ALWAYS}", **size_series},
        ),
        Alert(
            "PublishesRefused", "critical",
            f"increase({node.TOPIC_REFUSED.name}[{s.time(5 * _MINUTE)}]) > 0", 0,
            f"{_HERE}: the topic {{{{ $labels.topic }}}} is full and refuses publishes",
            "Let its consumers catch up, or raise --max-depth or --max-bytes.",
            {_of(node.TOPIC_REFUSED.name, ',topic="t"'): f"0+1{_ALWAYS}"},
            {_of(node.TOPIC_REFUSED.name, ',topic="t"'): _ONE},
        ),
        Alert(
            "MessagesDropped", "critical",
            f"increase({node.TOPIC_DROPPED.name}[{s.time(5 * _MINUTE)}]) > 0", 0,
            f"{_HERE}: the topic {{{{ $labels.topic }}}} is full and drops its oldest messages",
            "Let its consumers catch up, or raise --max-depth or --max-bytes.",
            {_of(node.TOPIC_DROPPED.name, ',topic="t"'): f"0+1{_ALWAYS}"},
            {_of(node.TOPIC_DROPPED.name, ',topic="t"'): _ONE},
        ),
    )  # fmt: skip


def _copies() -> tuple[Alert, ...]:
    wanted, met = replication.REPLICAS_ACKED.name, replication.REPLICAS_IN_FORCE.name
    primary, following = replication.PRIMARY.name, replication.FOLLOWING.name
    lag = replication.LAG_SECONDS.name
    return (
        Alert(
            "CopiesMissing", "critical", f"{met} < {wanted}", _MINUTE,
            f"{_HERE}: fewer copies follow than an OK is to wait for",
            "Publishes are refused, or acknowledged without copies (--replicas-missing): start the "
            "follower; its log and GET /replication say why it does not follow.",
            {_of(met): _ZERO, _of(wanted): _ONE}, {_of(met): _ONE, _of(wanted): _ONE},
        ),
        Alert(
            "CopyNotFollowing", "warning", f"{following} == 0", _MINUTE,
            f"{_HERE} is a copy and does not reach its primary",
            "GET /replication of it has the error. If the primary is gone, penstock promote makes "
            "the copy primary.",
            {_of(following): _ZERO}, {_of(following): _ONE},
        ),
        Alert(
            "CopyBehind", "warning", f"{lag} > 60 or {lag} != {lag}", 10 * _MINUTE,
            f"{_HERE} is a copy that lacks messages of its primary",
            "Until it has them, its promotion would lose them. See what its disk and the network "
            "between the two are busy with.",
            {_of(lag): f"100+60{_ALWAYS}"}, {_of(lag): _ZERO},
        ),
        Alert(
            "NodeFenced", "critical", f"{primary} == 0 unless {following}", _MINUTE,
            f"{_HERE} takes no publishes: another node was promoted",
            "GET /replication of it says how many messages only it has; started with --follow, it "
            "puts them aside and becomes a copy.",
            {_of(primary): _ZERO}, {_of(primary): _ZERO, _of(following): _ONE},
        ),
    )  # fmt: skip


def _consumers(s: Settings) -> tuple[Alert, ...]:
    depth, clients = node.CHANNEL_DEPTH.name, node.CHANNEL_CLIENTS.name
    short, long = s.time(10 * _MINUTE), s.time(30 * _MINUTE)
    return (
        Alert(
            "ChannelWithoutConsumers", "warning",
            f"deriv({depth}[{short}]) > 0 and {depth} > 0 and {clients} == 0", 10 * _MINUTE,
            f"{_HERE}: nobody reads {_QUEUE}, and it grows",
            "Start its consumers, or delete the channel if nobody needs it: it holds the log.",
            {_of(depth, _CHANNEL): f"0+5{_ALWAYS}", _of(clients, _CHANNEL): _ZERO},
            {_of(depth, _CHANNEL): f"0+5{_ALWAYS}", _of(clients, _CHANNEL): _ONE},
        ),
        Alert(
            "ChannelBehind", "warning",
            f"deriv({depth}[{long}]) > 0 and {depth} > {s.backlog} and {clients} > 0",
            30 * _MINUTE, f"{_HERE}: the consumers of {_QUEUE} fall behind",
            "Add consumers, raise their max_in_flight, or see what they wait for.",
            {_of(depth, _CHANNEL): _GROWS, _of(clients, _CHANNEL): _ONE},
            {_of(depth, _CHANNEL): _STILL, _of(clients, _CHANNEL): _ONE},
        ),
        Alert(
            "ChannelPaused", "warning", f"{node.CHANNEL_PAUSED.name} == 1 and {depth} > 0", _HOUR,
            f"{_HERE}: {_QUEUE} has been paused for an hour and messages wait",
            "Unpause it, or delete it if nobody needs it.",
            {_of(node.CHANNEL_PAUSED.name, _CHANNEL): _ONE, _of(depth, _CHANNEL): _STILL},
            {_of(node.CHANNEL_PAUSED.name, _CHANNEL): _ONE, _of(depth, _CHANNEL): _ZERO},
        ),
        Alert(
            "ManyTimeouts", "warning",
            f"rate({node.CHANNEL_TIMEOUTS.name}[{short}]) > "
            f"0.05 * rate({node.CHANNEL_DELIVERIES.name}[{short}])", 10 * _MINUTE,
            f"{_HERE}: of {_QUEUE}, more than 5 % of the deliveries time out",
            "Consumers take longer than --msg-timeout, or crash: each such message comes again.",
            {_of(node.CHANNEL_TIMEOUTS.name, _CHANNEL): f"0+10{_ALWAYS}",
             _of(node.CHANNEL_DELIVERIES.name, _CHANNEL): f"0+100{_ALWAYS}"},
            {_of(node.CHANNEL_TIMEOUTS.name, _CHANNEL): f"0+1{_ALWAYS}",
             _of(node.CHANNEL_DELIVERIES.name, _CHANNEL): f"0+100{_ALWAYS}"},
        ),
        Alert(
            "DeadLetters", "warning",
            f"increase({node.CHANNEL_DEAD_LETTERS.name}[{short}]) > 0", 0,
            f"{_HERE}: messages of {_QUEUE} go to the dead-letter topic",
            "penstock dlq shows them, and sends them again when the cause is mended.",
            {_of(node.CHANNEL_DEAD_LETTERS.name, _CHANNEL): f"0+1{_ALWAYS}"},
            {_of(node.CHANNEL_DEAD_LETTERS.name, _CHANNEL): _ONE},
        ),
        Alert(
            "LogGroupStuck", "warning",
            f"{node.LOG_GROUP_AGE.name} > {_DAY // s.speed} and {node.LOG_GROUP_LAG.name} > 0", 0,
            f"{_HERE}: the group {_READERS} has not moved for a day and holds the log",
            "Start its reader, or delete the group (POST /log/group/delete).",
            {_of(node.LOG_GROUP_AGE.name, _GROUP): f"90000+60{_ALWAYS}",
             _of(node.LOG_GROUP_LAG.name, _GROUP): _ONE},
            {_of(node.LOG_GROUP_AGE.name, _GROUP): f"600+60{_ALWAYS}",
             _of(node.LOG_GROUP_LAG.name, _GROUP): _ONE},
        ),
    )  # fmt: skip


def _rocketmq(s: Settings) -> tuple[Alert, ...]:
    lag, members = node.GROUP_LAG.name, node.GROUP_MEMBERS.name
    return (
        Alert(
            "GroupWithoutMembers", "warning",
            f"deriv({lag}[{s.time(10 * _MINUTE)}]) > 0 and {lag} > 0 and {members} == 0",
            10 * _MINUTE, f"{_HERE}: nobody is in the group {_READERS}, and its lag grows",
            "Start its consumers, or delete the group (mqadmin deleteSubGroup).",
            {_of(lag, _GROUP): f"0+5{_ALWAYS}", _of(members, _GROUP): _ZERO},
            {_of(lag, _GROUP): f"0+5{_ALWAYS}", _of(members, _GROUP): _ONE},
        ),
        Alert(
            "GroupBehind", "warning",
            f"deriv({lag}[{s.time(30 * _MINUTE)}]) > 0 and {lag} > {s.backlog} and {members} > 0",
            30 * _MINUTE, f"{_HERE}: the group {_READERS} falls behind",
            "Add consumers, up to the topic's number of queues, or see what they wait for.",
            {_of(lag, _GROUP): _GROWS, _of(members, _GROUP): _ONE},
            {_of(lag, _GROUP): _STILL, _of(members, _GROUP): _ONE},
        ),
        Alert(
            "SendsFail", "critical",
            f"increase({mqbroker.PUT_FAILURES.name}[{s.time(5 * _MINUTE)}]) > 0", 0,
            f"{_HERE} cannot store messages of RocketMQ's producers",
            "Its log and GET /ping say what is wrong, a full disk for one.",
            {_of(mqbroker.PUT_FAILURES.name): f"0+1{_ALWAYS}"},
            {_of(mqbroker.PUT_FAILURES.name): _ONE},
        ),
        Alert(
            "NameServerUnreachable", "warning",
            f"{mqbroker.NAME_SERVERS_CONNECTED.name} < {mqbroker.NAME_SERVERS.name}", 5 * _MINUTE,
            f"{_HERE} is not registered at all its name servers",
            "Clients that ask those do not find it. See if they run, and namesrvAddr.",
            {_of(mqbroker.NAME_SERVERS_CONNECTED.name): _ONE,
             _of(mqbroker.NAME_SERVERS.name): _TWO},
            {_of(mqbroker.NAME_SERVERS_CONNECTED.name): _TWO,
             _of(mqbroker.NAME_SERVERS.name): _TWO},
        ),
        Alert(
            "BrokersGone", "critical",
            f"increase({mqnamesrv.BROKERS_GONE.name}[{s.time(10 * _MINUTE)}]) > 0", 0,
            f"{_HERE} has taken out a broker: its {{{{ $labels.reason }}}} says it is gone",
            "mqadmin clusterList shows those that are left.",
            {_of(mqnamesrv.BROKERS_GONE.name, ',reason="silence"'): f"0+1{_ALWAYS}"},
            {_of(mqnamesrv.BROKERS_GONE.name, ',reason="silence"'): _ONE},
        ),
    )  # fmt: skip


def _directory(s: Settings) -> tuple[Alert, ...]:
    return (
        Alert(
            "LookupdUnreachable", "warning",
            f"{nsqd.LOOKUPDS_CONNECTED.name} < {nsqd.LOOKUPDS.name}", 5 * _MINUTE,
            f"{_HERE} is not registered at all its nsqlookupds",
            "Consumers that ask those do not find it. See if they run, and --lookupd-tcp-address.",
            {_of(nsqd.LOOKUPDS_CONNECTED.name): _ONE, _of(nsqd.LOOKUPDS.name): _TWO},
            {_of(nsqd.LOOKUPDS_CONNECTED.name): _TWO, _of(nsqd.LOOKUPDS.name): _TWO},
        ),
        Alert(
            "ProducersSilent", "warning", f"{nsqlookupd.SILENT_PRODUCERS.name} > 0", 5 * _MINUTE,
            f"{_HERE} has {{{{ $value }}}} nsqds that are connected and say nothing",
            "They hang, or packets are lost on the way: GET /debug has their last_update.",
            {_of(nsqlookupd.SILENT_PRODUCERS.name): _ONE},
            {_of(nsqlookupd.SILENT_PRODUCERS.name): _ZERO},
        ),
        Alert(
            "NodesUnreachable", "warning", f"{nsqadmin.FAILURES.name} > 0", 5 * _MINUTE,
            f"nsqadmin at {_HERE} gets no answer from {{{{ $value }}}} daemons",
            "Its page Nodes names them.",
            {_of(nsqadmin.FAILURES.name): _ONE}, {_of(nsqadmin.FAILURES.name): _ZERO},
        ),
        Alert(
            "AuthServersFail", "critical",
            f"increase({nsqd.AUTH_FAILURES.name}[{s.time(5 * _MINUTE)}]) > 0", 5 * _MINUTE,
            f"{_HERE} gets no valid answer from its auth servers",
            "No client can connect until one of --auth-http-address answers again.",
            {_of(nsqd.AUTH_FAILURES.name): f"0+1{_ALWAYS}"},
            {_of(nsqd.AUTH_FAILURES.name): _ONE},
        ),
    )  # fmt: skip


def _pipelines() -> tuple[Alert, ...]:
    """A pipeline tells every node that it reads from: its lag adds up, all else is the same."""
    failed, age = nsqd.PIPELINE_FAILED.name, nsqd.PIPELINE_AGE.name
    running, lag = nsqd.PIPELINE_RUNNING.name, nsqd.PIPELINE_LAG.name
    return (
        Alert(
            "PipelineFailed", "critical", f"max by (pipeline, id) ({failed}) > 0", 0,
            "the pipeline {{ $labels.pipeline }} ended with an error",
            "nsqadmin's page of it, and GET /pipelines, have the error.",
            {_of(failed, _PIPELINE): _ONE}, {_of(failed, _PIPELINE): _ZERO},
        ),
        Alert(
            "PipelineSilent", "warning",
            f"min by (pipeline, id) ({age}) > 60 and max by (pipeline, id) ({running}) > 0", 0,
            "the pipeline {{ $labels.pipeline }} was killed, or reaches no node",
            "See if its Spark driver runs.",
            {_of(age, _PIPELINE): f"0+60{_ALWAYS}", _of(running, _PIPELINE): _ONE},
            {_of(age, _PIPELINE): f"5+0{_ALWAYS}", _of(running, _PIPELINE): _ONE},
        ),
        Alert(
            "PipelineBehind", "warning", f"sum by (pipeline, id) ({lag}) > 100000", 10 * _MINUTE,
            "the pipeline {{ $labels.pipeline }} is {{ $value | humanize }} messages behind",
            "Give Spark more cores, or the pipeline larger batches.",
            {_of(lag, _PIPELINE): f"200000+0{_ALWAYS}"}, {_of(lag, _PIPELINE): _STILL},
        ),
    )  # fmt: skip
