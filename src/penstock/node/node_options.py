"""The options of a node and of the ports over it: flags of nsqd, which mqbroker sets by properties.

Beside NSQ's own are ours: what an OK has survived (``--durability``), how long consumed messages
stay for replay (``--retention-*``), and the copies of a node.
"""

from __future__ import annotations

import logging
import socket
from zlib import crc32

from penstock.broker.channels.spent import MAX_ATTEMPTS_MAX
from penstock.broker.dead_letters import dead_letter_topic
from penstock.broker.publish.bounds import Overflow
from penstock.core.errors import ConfigError
from penstock.core.names import is_valid_name
from penstock.core.settings.option_kinds import DURATION, FLOATS, LOG_LEVEL, Choice
from penstock.core.settings.options import option
from penstock.core.settings.tls_kinds import TLS_MIN_VERSION
from penstock.core.settings.web_options import WebOptions
from penstock.core.units import MINUTE, SECOND
from penstock.node.max_lag import MAX_LAG, MaxLag
from penstock.node.replicas import Missing, ReplicaOptions
from penstock.storage.durability import Durability


def default_node_id() -> int:
    """The node id of this host: as in Go, a checksum of the host name's MD5, mod 1024."""
    from hashlib import md5

    digest = md5(socket.gethostname().encode(), usedforsecurity=False).digest()
    return crc32(digest) % 1024


class NodeOptions(WebOptions):
    """The options of one node. Durations in nanoseconds, sizes in bytes; defaults are nsqd's."""

    log_level: int = option(
        logging.INFO, "lowest level that is logged: debug, info, warn, error, fatal", kind=LOG_LEVEL
    )
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
    broadcast_address: str = option(
        help="address that consumers get from nsqlookupd", factory=socket.gethostname
    )
    broadcast_tcp_port: int = option(0, "TCP port that nsqlookupd lists (0: the one listened on)")
    broadcast_http_port: int = option(0, "HTTP port that nsqlookupd lists (0: the one listened on)")

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
    retention_time: int = option(
        0, "keep consumed messages for this long (0: no rule)", kind=DURATION
    )
    retention_bytes: int = option(
        0, "keep this many bytes of consumed messages per topic (0: no rule)"
    )
    group_retention: int = option(
        0,
        "delete a group that leaves messages unread and has not moved for this long (0: never)",
        kind=DURATION,
    )

    follow: str = option(
        "",
        "<addr>:<port> or URL of another nsqd's HTTP(S): be its copy, and take no publishes "
        "until promoted",
    )
    replicas_acked: int = option(
        0, "copies that have a publish, at the node's durability, before its OK (0: none)"
    )
    replicas_timeout: int = option(
        5 * SECOND,
        "time after which a publish that is not copied is answered with an error",
        kind=DURATION,
    )
    replicas_missing: Missing = option(
        Missing.REFUSE,
        "while fewer copies follow: refuse publishes, or go-on without",
        kind=Choice(Missing, "way", "way"),
    )
    needs_lease: bool = option(
        False, "take publishes only while `penstock lease` renews the lease of this node"
    )
    promote_max_lag: MaxLag = option(
        MaxLag(),
        "most that the promotion of this follower may lose without --force: a time (1s) or a "
        "number of messages",
        kind=MAX_LAG,
    )
    promote_before_hook: str = option(
        "",
        "shell command before this follower becomes primary; an exit code other than 0 refuses "
        "it, so it may take a lease",
    )
    promote_after_hook: str = option(
        "", "shell command once this node, promoted, takes publishes; what fails is logged"
    )
    promote_hook_timeout: int = option(
        30 * SECOND, "time after which a hook is killed, and has failed", kind=DURATION
    )
    replication_secret_file: str = option(
        "", "file with the secret that a node and its copies share; empty: none is asked for"
    )

    max_msg_size: int = option(1024 * 1024, "bytes of the largest message")
    max_msg_timeout: int = option(
        15 * MINUTE, "longest time a message may be in flight", kind=DURATION
    )
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
    )

    e2e_processing_latency_percentiles: tuple[float, ...] = option(
        (),
        "quantiles of the time from publish to finish, in (0, 1], comma-separated",
        flag="e2e-processing-latency-percentile",
        key="e2e_processing_latency_percentiles",
        kind=FLOATS,
    )
    e2e_processing_latency_window_time: int = option(
        10 * MINUTE, "time that --e2e-processing-latency-percentile covers", kind=DURATION
    )

    tls_cert: str = option("", "certificate file (PEM); TLS is offered with it")
    tls_key: str = option("", "key file (PEM) of the certificate")
    tls_client_auth_policy: str = option(
        "", "client certificates: require (any) or require-verify; turns --tls-required on"
    )
    tls_root_ca_file: str = option("", "CA file (PEM) for client certificates and https")
    # 0x0301 is TLS 1.0. Go shows the number at /config (NSQ spec 2.6).
    tls_min_version: int = option(769, "lowest TLS version: tls1.0 to tls1.3", kind=TLS_MIN_VERSION)

    def check(self) -> None:
        """Raise ConfigError for values that cannot work together, in nsqd's words."""
        if not 0 <= self.node_id < 1024:
            raise ConfigError("--node-id must be [0,1024)")
        for percentile in self.e2e_processing_latency_percentiles:
            if not 0 < percentile <= 1:
                raise ConfigError(f"invalid E2E processing latency percentile: {percentile:g}")
        self._check_intervals()
        self._check_bounds()
        self._check_copies()

    def _check_intervals(self) -> None:
        """Go's nsqd panics at an interval of 0, sooner or later; ours says so at the start."""
        if self.sync_timeout <= 0:
            raise ConfigError("--sync-timeout must be greater than 0")
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

    def latency_window(self) -> int:
        """Over how long latencies are measured, in nanoseconds; 0 when nobody asks for them."""
        asked = self.e2e_processing_latency_percentiles
        return self.e2e_processing_latency_window_time if asked else 0
