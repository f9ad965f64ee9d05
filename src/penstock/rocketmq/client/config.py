"""Options of a client: finding servers, proving its identity, patience, setbacks.

Names and defaults are those of the Java client, the names in Python's spelling; comments say where
a default differs. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigError
from penstock.core.settings.client_options import (
    CODE_ONLY,
    FILE,
    SECONDS,
    OneOf,
    Option,
    option,
    options_of,
)
from penstock.core.settings.option_kinds import BOOL, INT, STRING

if TYPE_CHECKING:
    import ssl

MINUTE: Final = 60.0
HOUR: Final = 3600.0
MIB: Final = 1024 * 1024


def _one_of(*words: str) -> OneOf:
    return OneOf(*words, empty=words[0], refusal="{} is not one of " + ", ".join(words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Options of connections, producers and consumers.

    ``validate`` is called by every producer and consumer that is given one.
    """

    # Finding servers
    namesrv_addr: str = option(
        "",
        STRING,
        "The name servers, `host:port;host:port`; `NAMESRV_ADDR` of the environment else.",
    )
    namesrv_url: str = option(
        "", STRING, "A page that lists the name servers so; asked for again every two minutes."
    )
    poll_name_server_interval: float = option(
        30.0, SECONDS, "How often routes are asked for again.", least=0.01, most=HOUR
    )
    heartbeat_broker_interval: float = option(
        30.0,
        SECONDS,
        "How often a heartbeat is sent to each broker.",
        least=0.01,
        most=MINUTE,
    )
    connect_timeout: float = option(
        3.0, SECONDS, "For a connection, TLS included.", least=0.001, most=5 * MINUTE
    )
    request_timeout: float = option(
        5.0,
        SECONDS,
        "For questions that are neither a send nor a pull.",
        least=0.001,
        most=5 * MINUTE,
    )

    # Who it is
    instance_name: str = option(
        "", STRING, "Tells clients of one machine apart; process and a number when empty."
    )
    unit_name: str = option("", STRING, "A third part of the client's id.")
    client_ip: str = option(
        "", STRING, "The first part of the client's id; this machine's if empty."
    )
    namespace: str = option("", STRING, "Stands before the names of topics and groups: `ns%name`.")
    access_key: str = option("", STRING, "The account that signs requests where ACL is in force.")
    secret_key: str = option("", STRING, "Its secret.", shown=False)
    security_token: str = option("", STRING, "Of a temporary account.", shown=False)

    # The way there
    serialization: str = option(
        "JSON", _one_of("JSON", "ROCKETMQ"), "Of headers; codes of POP are JSON always."
    )
    vip_channel_enabled: bool = option(
        False, BOOL, "Send to the broker's port less 2, as Java's clients before 4.5 did."
    )
    tls_enable: bool = option(False, BOOL, "Speak TLS with name servers and brokers.")
    tls_config: ssl.SSLContext | None = option(  # noqa: RUF009 - a field, not a value
        None, CODE_ONLY, "An `ssl.SSLContext` instead of all the other `tls_*`."
    )
    tls_trust_cert_path: str = option(
        "", FILE, "Signs the servers' certificates (PEM); the system's authorities when empty."
    )
    tls_cert_path: str = option("", FILE, "Our certificate (PEM).")
    tls_key_path: str = option("", FILE, "Its key (PEM), where it is not in the same file.")
    # Java trusts anybody unless told otherwise.
    tls_auth_server: bool = option(
        True, BOOL, "Refuse servers that cannot prove who they are; Java's default is not to."
    )

    # Producers
    send_msg_timeout: float = option(
        3.0, SECONDS, "For a send with all that is tried again.", least=0.001, most=5 * MINUTE
    )
    retry_times_when_send_failed: int = option(
        2, INT, "How often a failed send is tried again, on another broker.", least=0, most=100
    )
    retry_another_broker_when_not_store_ok: bool = option(
        False, BOOL, "Also when it was stored but not synced or copied in time; that doubles it."
    )
    send_latency_fault_enable: bool = option(
        False, BOOL, "Leave brokers alone for a while that failed or were slow."
    )
    max_message_size: int = option(
        4 * MIB, INT, "Longer bodies, and batches, are refused or split here.", least=1
    )
    compress_msg_body_over_howmuch: int = option(
        4096, INT, "Bodies of this size or more are compressed; batches never are.", least=1
    )
    compress_type: str = option(
        "ZLIB", _one_of("ZLIB", "LZ4", "ZSTD"), "The others need consumers of 5.x."
    )
    compress_level: int = option(5, INT, "1 is quick, 9 is small.", least=1, most=9)
    default_topic_queue_nums: int = option(
        4, INT, "Queues of a topic that is created by sending to it.", least=1, most=1024
    )
    create_topic_key: str = option("TBW102", STRING, "The topic whose settings it gets.")
    max_pending: int = option(
        1000,
        INT,
        "Messages of `send_soon` that may be under way; more wait.",
        least=1,
        most=100_000,
    )
    max_pending_bytes: int = option(64 * MIB, INT, "And their bodies' bytes.", least=1)

    # Traces
    enable_msg_trace: bool = option(False, BOOL, "Send a trace of each message.")
    trace_topic: str = option("RMQ_SYS_TRACE_TOPIC", STRING, "Where traces go.")

    # Consumers
    message_model: str = option(
        "CLUSTERING",
        _one_of("CLUSTERING", "BROADCASTING"),
        "Share a topic's messages among the group's members, or give each all of them.",
    )
    consume_from_where: str = option(
        "CONSUME_FROM_LAST_OFFSET",
        _one_of("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"),
        "Where a group begins that has no offset yet.",
    )
    consume_timestamp: float = option(
        0.0, SECONDS, "That time, as a Unix time; 0 for half an hour before the start.", least=0
    )
    rebalance_interval: float = option(
        20.0,
        SECONDS,
        "How often queues are shared again, beside when members change.",
        least=0.01,
        most=HOUR,
    )
    persist_consumer_offset_interval: float = option(
        5.0,
        SECONDS,
        "How often offsets are committed to the broker, or written.",
        least=0.01,
        most=HOUR,
    )
    offset_store_path: str = option(
        "", STRING, "The folder of broadcast consumers' offsets; `~/.rocketmq_offsets` when empty."
    )
    pull_batch_size: int = option(
        32, INT, "Messages of one pull; the broker may give fewer.", least=1, most=1024
    )
    pull_threshold_for_queue: int = option(
        1000,
        INT,
        "Messages of a queue that may be held before it is pulled no further.",
        least=1,
        most=65535,
    )
    pull_threshold_size_for_queue: int = option(
        100 * MIB, INT, "Bytes of a queue, likewise.", least=1
    )
    consume_concurrently_max_span: int = option(
        2000,
        INT,
        "How far the newest message held may be ahead of the oldest.",
        least=1,
        most=65535,
    )
    broker_suspend_max_time: float = option(
        15.0,
        SECONDS,
        "How long a broker may hold a pull that finds nothing; with 0 it is asked every second.",
        least=0,
        most=MINUTE,
    )
    consumer_pull_timeout: float = option(
        30.0, SECONDS, "For the answer to a pull.", least=0.01, most=5 * MINUTE
    )
    pull_time_delay_when_exception: float = option(
        3.0, SECONDS, "The pause after a pull that failed.", least=0.001, most=MINUTE
    )
    consume_threads: int = option(20, INT, "Messages that are handled at once.", least=1, most=1000)
    consume_message_batch_max_size: int = option(
        1, INT, "Messages that `run_batches` hands out together.", least=1, most=1024
    )
    consume_timeout: float = option(
        15 * MINUTE,
        SECONDS,
        "A message handled for longer is sent back; not in order.",
        least=0.01,
        most=24 * HOUR,
    )
    max_reconsume_times: int = option(
        -1,
        INT,
        "Retries before a message is a dead letter; -1 for 16, and in order for no end.",
        least=-1,
    )
    suspend_current_queue_time: float = option(
        1.0, SECONDS, "The pause of a queue whose message failed, in order.", least=0.01, most=30
    )
    await_termination: float = option(
        30.0, SECONDS, "How long closing waits for handlers.", least=0, most=HOUR
    )

    def with_option(self, name: str, value: str | bool = True) -> Config:
        """A copy with this option set from a text; durations need a unit. Raises ConfigError.

        Java's names are taken as well as ours: ``sendMsgTimeout``.
        """
        words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
        known = OPTIONS.get(words.replace("-", "_"))
        if known is None:
            raise ConfigError(f"invalid option {name}")
        return replace(self, **{known.name: known.read(value)})

    def validate(self) -> Config:
        """Itself, if all values can be used, and used together. Raises ConfigError."""
        for each in OPTIONS.values():
            each.check(getattr(self, each.name))
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("access_key and secret_key are of use together only: give both")
        if self.consumer_pull_timeout <= self.broker_suspend_max_time:
            raise ConfigError(
                "consumer_pull_timeout must be longer than broker_suspend_max_time: "
                "a broker answers a pull that finds nothing only after that"
            )
        return self


def config_at(namesrv_addr: str, config: Config | None) -> Config:
    """The options of a client whose name servers may be given apart."""
    config = config or Config()
    return replace(config, namesrv_addr=namesrv_addr) if namesrv_addr else config


OPTIONS: Final[dict[str, Option]] = options_of(Config)
