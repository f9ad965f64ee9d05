"""Every flag of nsqd beside those of its node (NSQ manual, nsqd command line).

Those at the end have no effect but must be accepted.
"""

from __future__ import annotations

from typing import Final

from penstock.core.errors import ConfigError
from penstock.core.settings.option_kinds import DURATION
from penstock.core.settings.options import option
from penstock.core.settings.tls_kinds import TLS_REQUIRED, TlsRequired
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.node.node_options import NodeOptions
from penstock.nsq.protocol.limits import Limits

EXPERIMENTS: Final = frozenset(("topology-aware-consumption",))


class NsqdOptions(NodeOptions):
    """The options of one nsqd. Durations in nanoseconds, sizes in bytes."""

    rocketmq_address: str = option(
        "", "<addr>:<port> for clients of RocketMQ, over the same topics; empty: off"
    )
    rocketmq_namesrv_addresses: tuple[str, ...] = option(
        (),
        "address of a RocketMQ name server (may be given several times)",
        flag="rocketmq-namesrv-address",
        key="rocketmq_namesrv_addresses",
    )
    rocketmq_config: str = option("", "properties file with further settings for RocketMQ")
    rocketmq_open: bool = option(
        default=False,
        help="allow an open RocketMQ port although TLS or AUTH protect nsqd's ports",
    )
    lookupd_tcp_addresses: tuple[str, ...] = option(
        (),
        "TCP address of an nsqlookupd (may be given several times)",
        flag="lookupd-tcp-address",
        key="nsqlookupd_tcp_addresses",
    )
    http_client_connect_timeout: int = option(
        2 * SECOND, "time to connect to nsqlookupd's HTTP or an auth server", kind=DURATION
    )
    http_client_request_timeout: int = option(
        5 * SECOND, "time for a whole request to nsqlookupd's HTTP or an auth server", kind=DURATION
    )
    topology_region: str = option("", "region of this node")
    topology_zone: str = option("", "zone of this node")

    max_staged_bytes: int = option(
        1024 * 1024 * 1024, "bytes that writers may stage and not have committed (0: none)"
    )
    staged_retention: int = option(
        24 * HOUR, "drop what was staged and not committed for this long", kind=DURATION
    )

    msg_timeout: int = option(
        1 * MINUTE, "time until an unfinished message is delivered again", kind=DURATION
    )
    max_req_timeout: int = option(
        1 * HOUR, "longest deferral of a message (2562047h: any)", kind=DURATION
    )
    max_body_size: int = option(5 * 1024 * 1024, "bytes of the largest command body")
    max_heartbeat_interval: int = option(
        1 * MINUTE, "longest heartbeat interval of a client", kind=DURATION
    )
    max_rdy_count: int = option(2500, "largest RDY of a client")
    magic_timeout: int = option(
        1 * MINUTE,
        "time for a new connection to say which protocol it speaks",
        kind=DURATION,
        hidden=True,
    )
    max_output_buffer_size: int = option(64 * 1024, "largest output buffer of a client")
    max_output_buffer_timeout: int = option(
        30 * SECOND, "longest output delay of a client", kind=DURATION
    )
    min_output_buffer_timeout: int = option(
        25 * MILLISECOND, "shortest output delay of a client", kind=DURATION
    )
    output_buffer_timeout: int = option(
        250 * MILLISECOND, "output delay of a client that asks for none", kind=DURATION
    )
    max_channel_consumers: int = option(0, "consumers of one channel (0: any number)")

    statsd_address: str = option("", "UDP <addr>:<port> of a statsd; empty: off")
    statsd_interval: int = option(1 * MINUTE, "time between two pushes to statsd", kind=DURATION)
    statsd_mem_stats: bool = option(default=True, help="push memory and GC figures to statsd too")
    statsd_prefix: str = option("nsq.%s", "prefix of the keys for statsd (%s: host and port)")
    # RFC 791: any host takes 576 bytes; IP's header may be 60 of them, UDP's is 8.
    statsd_udp_packet_size: int = option(508, "bytes of a packet to statsd")
    statsd_exclude_ephemeral: bool = option(
        default=False, help="push nothing of #ephemeral topics and channels"
    )

    auth_http_addresses: tuple[str, ...] = option(
        (),
        "address or URL of an auth server (may be given several times)",
        flag="auth-http-address",
        key="auth_http_addresses",
    )
    auth_http_request_method: str = option("get", "how auth servers are asked: get or post")
    tls_required: TlsRequired = option(
        TlsRequired.NO,
        "who must use TLS: true (all), tcp-https (all but plain HTTP) or false",
        kind=TLS_REQUIRED,
    )
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
        super().check()
        if not 1 <= self.max_deflate_level <= 9:
            raise ConfigError("--max-deflate-level must be [1,9]")
        if self.auth_http_request_method not in ("get", "post"):
            raise ConfigError("--auth-http-request-method must be post or get")
        if self.statsd_address and self.statsd_interval <= 0:  # at which Go's nsqd panics
            raise ConfigError("--statsd-interval must be greater than 0")
        if self.max_staged_bytes < 0:
            raise ConfigError("--max-staged-bytes must not be negative")
        if self.staged_retention <= 0:
            raise ConfigError("--staged-retention must be greater than 0")
        if self.tls_needed is not TlsRequired.NO and not (self.tls_cert or self.tls_key):
            raise ConfigError("cannot require TLS client connections without TLS key and cert")

    @property
    def tls_needed(self) -> TlsRequired:
        """The clients that must use TLS; all if only a policy for client certificates is set."""
        if self.tls_client_auth_policy and self.tls_required is TlsRequired.NO:
            return TlsRequired.YES
        return self.tls_required

    def without_effect(self) -> list[str]:
        """The flags that were given and do nothing, but leave nobody unprotected."""
        unknown = [name for name in self.enable_experiment if name not in EXPERIMENTS]
        return [f"--enable-experiment={name}" for name in unknown]

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
