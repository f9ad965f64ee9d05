"""Every flag of nsqd, once: with its TOML key, default and help (NSQ manual, nsqd command line).

After NSQ's own come ours: what an OK has survived (``--durability``) and how long consumed messages
stay for replay (``--retention-*``). Those at the end have no effect but must be accepted.
"""

from __future__ import annotations

import logging
import socket
from typing import Final
from zlib import crc32

from penstock.broker.channels.spent import MAX_ATTEMPTS_MAX
from penstock.broker.dead_letters import dead_letter_topic
from penstock.broker.publish.bounds import Overflow
from penstock.core.errors import ConfigError
from penstock.core.names import is_valid_name
from penstock.core.settings.option_kinds import DURATION, FLOATS, LOG_LEVEL, Choice
from penstock.core.settings.options import option
from penstock.core.settings.tls_kinds import TLS_MIN_VERSION, TLS_REQUIRED, TlsRequired
from penstock.core.settings.web_options import WebOptions
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.node.replicas import Missing, ReplicaOptions
from penstock.nsq.protocol.limits import Limits
from penstock.storage.durability import Durability

EXPERIMENTS: Final = frozenset(("topology-aware-consumption",))


def default_node_id() -> int:
    """The node id of this host: as in Go, a checksum of the host name's MD5, mod 1024."""
    from hashlib import md5

    digest = md5(socket.gethostname().encode(), usedforsecurity=False).digest()
    return crc32(digest) % 1024


class NsqdOptions(WebOptions):
    """The options of one nsqd. Durations in nanoseconds, sizes in bytes."""

    log_level: int = option(logging.INFO, "lowest level that is logged: debug, info, warn, error, "
                            "fatal", kind=LOG_LEVEL)  # fmt: skip
    log_prefix: str = option("[nsqd] ", "what every log line starts with")
    node_id: int = option(
        help="number of this node in message ids, 0 to 1023", key="id", factory=default_node_id
    )

    tcp_address: str = option(
        "0.0.0.0:4150", "<addr>:<port> or unix socket for TCP clients; empty: off"
    )
    http_address: str = option("0.0.0.0:4151", "<addr>:<port> or unix socket for HTTP; empty: off")
    https_address: str = option(
        "0.0.0.0:4152", "<addr>:<port> for HTTPS clients, with --tls-cert; empty: off"
    )
    rocketmq_address: str = option(
        "", "<addr>:<port> for clients of RocketMQ, over the same topics; empty: off"
    )
    rocketmq_namesrv_addresses: tuple[str, ...] = option(
        (), "address of a RocketMQ name server (may be given several times)",
        flag="rocketmq-namesrv-address", key="rocketmq_namesrv_addresses",
    )  # fmt: skip
    rocketmq_config: str = option("", "properties file with further settings for RocketMQ")
    rocketmq_open: bool = option(
        default=False,
        help="allow an open RocketMQ port although TLS or AUTH protect nsqd's ports",
    )
    broadcast_address: str = option(
        help="address that nsqlookupd tells consumers", factory=socket.gethostname
    )
    broadcast_tcp_port: int = option(0, "TCP port that nsqlookupd tells (0: the one listened on)")
    broadcast_http_port: int = option(0, "HTTP port that nsqlookupd tells (0: the one listened on)")
    lookupd_tcp_addresses: tuple[str, ...] = option(
        (), "TCP address of an nsqlookupd (may be given several times)",
        flag="lookupd-tcp-address", key="nsqlookupd_tcp_addresses",
    )  # fmt: skip
    http_client_connect_timeout: int = option(
        2 * SECOND, "time to connect to nsqlookupd's HTTP or an auth server", kind=DURATION
    )
    http_client_request_timeout: int = option(
        5 * SECOND, "time for a whole request to nsqlookupd's HTTP or an auth server", kind=DURATION
    )
    topology_region: str = option("", "region of this node")
    topology_zone: str = option("", "zone of this node")

    data_path: str = option("", "directory for all data (empty: the current one)")
    mem_queue_size: int = option(10_000, "messages of a topic or channel that stay in memory")
    max_bytes_per_file: int = option(100 * 1024 * 1024, "bytes of a segment file before the next")
    sync_every: int = option(2500, "messages of a topic between two syncs of its log")
    sync_timeout: int = option(2 * SECOND, "time between two syncs of a log", kind=DURATION)
    durability: Durability = option(
        Durability.WRITE,
        "what a publish has survived when it is acknowledged: memory, write (kill -9) or fsync "
        "(power cut)",
        kind=Choice(Durability, "durability", "level"),
    )
    retention_time: int = option(0, "keep consumed messages for this long (0: no rule)",
                                 kind=DURATION)  # fmt: skip
    retention_bytes: int = option(
        0, "keep this many bytes of consumed messages per topic (0: no rule)"
    )
    group_retention: int = option(
        0, "delete a group that leaves messages unread and has not moved for this long (0: never)",
        kind=DURATION,
    )  # fmt: skip

    follow: str = option(
        "", "<addr>:<port> or URL of another nsqd's HTTP(S): be its copy, and take no publishes "
        "until promoted",
    )  # fmt: skip
    replicas_acked: int = option(
        0, "copies that have a publish, at the node's durability, before its OK (0: none)"
    )
    replicas_timeout: int = option(
        5 * SECOND, "time after which a publish that is not copied is answered with an error",
        kind=DURATION,
    )  # fmt: skip
    replicas_missing: Missing = option(
        Missing.REFUSE, "while fewer copies follow: refuse publishes, or go-on without",
        kind=Choice(Missing, "way", "way"),
    )  # fmt: skip
    promote_before_hook: str = option(
        "", "shell command before this follower becomes primary; an exit code other than 0 refuses "
        "it, so it may take a lease",
    )  # fmt: skip
    promote_after_hook: str = option(
        "", "shell command once this node, promoted, takes publishes; what fails is logged"
    )
    promote_hook_timeout: int = option(
        30 * SECOND, "time after which a hook is killed, and has failed", kind=DURATION
    )
    replication_secret_file: str = option(
        "", "file with the secret that a node and its copies share; empty: none is asked for"
    )

    max_staged_bytes: int = option(
        1024 * 1024 * 1024, "bytes that writers may stage and not have committed (0: none)"
    )
    staged_retention: int = option(
        24 * HOUR, "drop what was staged and not committed for this long", kind=DURATION
    )

    msg_timeout: int = option(1 * MINUTE, "time until an unfinished message is delivered again",
                              kind=DURATION)  # fmt: skip
    max_msg_timeout: int = option(15 * MINUTE, "longest time a message may be in flight",
                                  kind=DURATION)  # fmt: skip
    max_msg_size: int = option(1024 * 1024, "bytes of the largest message")
    max_req_timeout: int = option(1 * HOUR, "longest deferral of a message (2562047h: any)",
                                  kind=DURATION)  # fmt: skip
    max_attempts: int = option(
        0, "deliveries of a message before it moves to --dead-letter-topic (0: any number)"
    )
    dead_letter_topic: str = option(
        "%s.dead", "topic for what has had --max-attempts (%s: the topic it comes from)"
    )
    max_depth: int = option(0, "messages that a topic may hold unfinished (0: any number)")
    max_bytes: int = option(0, "log bytes that a topic may hold unfinished (0: any number)")
    overflow: Overflow = option(
        Overflow.REFUSE,
        "what a topic does at --max-depth or --max-bytes: refuse (publishes) or drop-oldest",
        kind=Choice(Overflow, "overflow policy", "policy"),
    )  # fmt: skip
    max_body_size: int = option(5 * 1024 * 1024, "bytes of the largest command body")
    max_heartbeat_interval: int = option(1 * MINUTE, "longest heartbeat interval of a client",
                                         kind=DURATION)  # fmt: skip
    max_rdy_count: int = option(2500, "largest RDY of a client")
    magic_timeout: int = option(
        1 * MINUTE, "time for a new connection to say which protocol it speaks", kind=DURATION,
        hidden=True,
    )  # fmt: skip
    max_output_buffer_size: int = option(64 * 1024, "largest output buffer of a client")
    max_output_buffer_timeout: int = option(30 * SECOND, "longest output delay of a client",
                                            kind=DURATION)  # fmt: skip
    min_output_buffer_timeout: int = option(25 * MILLISECOND, "shortest output delay of a client",
                                            kind=DURATION)  # fmt: skip
    output_buffer_timeout: int = option(250 * MILLISECOND, "output delay of a client that asks "
                                        "for none", kind=DURATION)  # fmt: skip
    max_channel_consumers: int = option(0, "consumers of one channel (0: any number)")

    statsd_address: str = option("", "UDP <addr>:<port> of a statsd; empty: off")
    statsd_interval: int = option(1 * MINUTE, "time between two pushes to statsd", kind=DURATION)
    statsd_mem_stats: bool = option(default=True, help="push memory and GC figures to statsd too")
    statsd_prefix: str = option("nsq.%s", "prefix of the keys for statsd (%s: host and port)")
    statsd_udp_packet_size: int = option(508, "bytes of a packet to statsd")
    statsd_exclude_ephemeral: bool = option(
        default=False, help="push nothing of #ephemeral topics and channels"
    )
    e2e_processing_latency_percentiles: tuple[float, ...] = option(
        (), "quantiles of the time from publish to finish, in (0, 1], comma-separated",
        flag="e2e-processing-latency-percentile", key="e2e_processing_latency_percentiles",
        kind=FLOATS,
    )  # fmt: skip
    e2e_processing_latency_window_time: int = option(
        10 * MINUTE, "time that --e2e-processing-latency-percentile covers", kind=DURATION
    )

    auth_http_addresses: tuple[str, ...] = option(
        (), "address or URL of an auth server (may be given several times)",
        flag="auth-http-address", key="auth_http_addresses",
    )  # fmt: skip
    auth_http_request_method: str = option("get", "how auth servers are asked: get or post")
    tls_cert: str = option("", "certificate file (PEM); TLS is offered with it")
    tls_key: str = option("", "key file (PEM) of the certificate")
    tls_client_auth_policy: str = option(
        "", "client certificates: require (any) or require-verify; turns --tls-required on"
    )
    tls_root_ca_file: str = option("", "CA file (PEM) for client certificates and https")
    tls_required: TlsRequired = option(
        TlsRequired.NO, "who must use TLS: true (all), tcp-https (all but plain HTTP) or false",
        kind=TLS_REQUIRED,
    )  # fmt: skip
    tls_min_version: int = option(769, "lowest TLS version: tls1.0 to tls1.3",
                                  kind=TLS_MIN_VERSION)  # fmt: skip
    deflate: bool = option(default=True, help="offer deflate compression")
    max_deflate_level: int = option(6, "highest deflate level, 1 to 9")
    snappy: bool = option(default=True, help="offer snappy compression")
    enable_experiment: tuple[str, ...] = option(
        (), "experimental feature to switch on: topology-aware-consumption"
    )

    queue_scan_worker_pool_max: int = option(4, "no effect: deadlines are kept in one heap")
    queue_scan_selection_count: int = option(20, "no effect: deadlines are kept in one heap")
    verbose: bool = option(default=False, help="deprecated, no effect")
    worker_id: bool = option(default=False, help="deprecated, no effect")

    def check(self) -> None:
        """Raise ConfigError for values that cannot work together, in nsqd's words."""
        if not 0 <= self.node_id < 1024:
            raise ConfigError("--node-id must be [0,1024)")
        if not 1 <= self.max_deflate_level <= 9:
            raise ConfigError("--max-deflate-level must be [1,9]")
        if self.auth_http_request_method not in ("get", "post"):
            raise ConfigError("--auth-http-request-method must be post or get")
        for percentile in self.e2e_processing_latency_percentiles:
            if not 0 < percentile <= 1:
                raise ConfigError(f"invalid E2E processing latency percentile: {percentile:g}")
        self._check_intervals()
        self._check_bounds()
        self._check_copies()
        if self.tls_needed is not TlsRequired.NO and not (self.tls_cert or self.tls_key):
            raise ConfigError("cannot require TLS client connections without TLS key and cert")

    @property
    def tls_needed(self) -> TlsRequired:
        """The clients that must use TLS; all if only a policy for client certificates is set."""
        if self.tls_client_auth_policy and self.tls_required is TlsRequired.NO:
            return TlsRequired.YES
        return self.tls_required

    def _check_intervals(self) -> None:
        """Go's nsqd panics at an interval of 0, sooner or later; ours says so at the start."""
        if self.sync_timeout <= 0:
            raise ConfigError("--sync-timeout must be greater than 0")
        if self.statsd_address and self.statsd_interval <= 0:
            raise ConfigError("--statsd-interval must be greater than 0")
        if self.e2e_processing_latency_percentiles and self.e2e_processing_latency_window_time <= 0:
            raise ConfigError("--e2e-processing-latency-window-time must be greater than 0")

    def _check_bounds(self) -> None:
        """Bounds that Go's nsqd does not have."""
        if not 0 <= self.max_attempts <= MAX_ATTEMPTS_MAX:
            raise ConfigError(f"--max-attempts must be [0,{MAX_ATTEMPTS_MAX}]")
        if not is_valid_name(dead_letter_topic(self.dead_letter_topic, "t")):
            raise ConfigError(f"--dead-letter-topic={self.dead_letter_topic} makes no topic name")
        if self.max_depth < 0 or self.max_bytes < 0:
            raise ConfigError("--max-depth and --max-bytes must not be negative")
        if self.group_retention < 0:
            raise ConfigError("--group-retention must not be negative")
        if self.max_staged_bytes < 0:
            raise ConfigError("--max-staged-bytes must not be negative")
        if self.staged_retention <= 0:
            raise ConfigError("--staged-retention must be greater than 0")

    def _check_copies(self) -> None:
        """A copy promises what its durability does."""
        if self.follow and self.durability is Durability.MEMORY:
            raise ConfigError("--follow needs --durability=write or fsync")
        if self.replicas_acked < 0 or self.replicas_timeout <= 0:
            raise ConfigError("--replicas-acked must not be negative, --replicas-timeout not 0")
        if self.replicas_acked and self.durability is Durability.MEMORY:
            raise ConfigError("--replicas-acked needs --durability=write or fsync")
        if self.promote_hook_timeout <= 0:
            raise ConfigError("--promote-hook-timeout must be greater than 0")

    def replicas(self) -> ReplicaOptions:
        """The copies that an OK waits for."""
        return ReplicaOptions(self.replicas_acked, self.replicas_timeout, self.replicas_missing)

    def without_effect(self) -> list[str]:
        """The flags that were given and do nothing, but leave nobody unprotected."""
        unknown = [name for name in self.enable_experiment if name not in EXPERIMENTS]
        return [f"--enable-experiment={name}" for name in unknown]

    def latency_window(self) -> int:
        """Over how long latencies are measured, in nanoseconds; 0 when nobody asks for them."""
        asked = self.e2e_processing_latency_percentiles
        return self.e2e_processing_latency_window_time if asked else 0

    def limits(self) -> Limits:
        """The limits on what a client may ask for."""
        return Limits(
            max_msg_size=self.max_msg_size,
            max_body_size=self.max_body_size,
            max_rdy_count=self.max_rdy_count,
            max_req_timeout=self.max_req_timeout,
            msg_timeout=self.msg_timeout,
            max_msg_timeout=self.max_msg_timeout,
            max_heartbeat_interval=self.max_heartbeat_interval,
            max_output_buffer_size=self.max_output_buffer_size,
            min_output_buffer_timeout=self.min_output_buffer_timeout,
            max_output_buffer_timeout=self.max_output_buffer_timeout,
            output_buffer_timeout=self.output_buffer_timeout,
        )
