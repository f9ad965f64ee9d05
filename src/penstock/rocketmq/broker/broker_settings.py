"""The properties of the broker, under the names of Java's configuration files.

Times are milliseconds and sizes bytes, unless stated otherwise. Not Java's are ``bindAddress``,
``monitoringAddress``, ``durability``, ``aclDirectory``, ``replicationSecretFile``,
``tls.ha.*``, ``promotedBrokerRole``, ``needsLease``, ``promoteMaxLag``, ``promoteBeforeHook``,
``promoteAfterHook``,
``nsqTcpAddress``, ``nsqHttpAddress``, ``nsqGroupRetention`` and ``nsqOpen``.
"""

from __future__ import annotations

import os
import socket
from copy import copy
from typing import ClassVar, Final

from penstock.core.errors import ConfigError
from penstock.core.settings import java_properties
from penstock.net.address import join_host_port, split_host_port
from penstock.net.local_address import local_address
from penstock.net.tls.tls_layer import ClientAuth, ServerTls
from penstock.node.max_lag import MAX_LAG, MaxLag
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.state import levels
from penstock.rocketmq.protocol.frames import FRAME_MAX
from penstock.rocketmq.tls_settings import TlsSettings
from penstock.storage.durability import Durability

SLAVE: Final = "SLAVE"
MASTERS: Final = ("ASYNC_MASTER", "SYNC_MASTER")
_SHUT: Final = "replicationSecretFile, or tls.ha.need.client.auth=require"
"""The properties that shut the port for slaves to strangers."""
_FRAME_ROOM: Final = 64 * 1024
"""Room that a frame may need beside the body of its message: header, properties."""


class BrokerSettings(TlsSettings):
    """Ports, paths, limits and habits; ``-c FILE`` and UPDATE_BROKER_CONFIG set them."""

    # Who and where
    namesrv_addr: str
    """``host:port`` of each name server, ``;`` between them; default: $NAMESRV_ADDR, else none."""
    broker_cluster_name: str = "DefaultCluster"
    """The cluster, as name servers list it."""
    broker_name: str
    """The name in the cluster, which a master shares with its slaves; default: the host's."""
    broker_id: int = 0
    """0 of a master, more of a slave: its number beside others of one master."""
    broker_ip1: str
    """The address that clients are told, part of message ids; default: the one towards others."""
    listen_port: int = 10911
    """The port of RocketMQ's clients."""
    bind_address: str = "0.0.0.0"
    """The address that ``listenPort`` is opened on; not Java's."""
    monitoring_address: str = ""
    """``host:port`` of HTTP for /live, /ping, /ready and /metrics; empty: off; not Java's."""
    server_channel_max_idle_time_seconds: int = 120
    """Seconds until a silent connection is closed."""
    region_id: str = "DefaultRegion"
    """Told to producers with each answer."""
    broker_config_path: str
    """The file for what UPDATE_BROKER_CONFIG changes; default: the file of ``-c``, else below
    the store."""
    config_black_list: str = "configBlackList;brokerConfigPath"
    """Properties that UPDATE_BROKER_CONFIG may not change, ``;`` between them."""

    # Registration at name servers
    register_name_server_period: int = 30_000
    """Time between two registrations, 10 s to 60 s."""
    register_broker_timeout_mills: int = 6000
    """Time for a name server to connect and to answer."""
    compressed_register: bool = False
    """Register in the compressed form."""
    use_tls: bool = False
    """Speak TLS to name servers."""
    tls_client_trust_cert_path: str = ""
    """Authorities that sign name servers' certificates (PEM); empty: the system's."""
    tls_client_auth_server: bool = False
    """Refuse a name server whose certificate is not signed by them."""

    # Topics and groups
    broker_permission: int = 6
    """4: routes send no producer here; 2: no pulls; 6: both. Name servers are told at once."""
    auto_create_topic_enable: bool = True
    """Make a topic with its first message."""
    default_topic_queue_nums: int = 8
    """The most queues of such a topic."""
    auto_create_subscription_group: bool = True
    """Make a group with its first heartbeat."""
    trace_topic_enable: bool = False
    """Keep the topic ``RMQ_SYS_TRACE_TOPIC`` for traces."""
    trace_on: bool = True
    """Tell producers to trace."""
    notify_consumer_ids_changed_enable: bool = True
    """Tell consumers when their group changes."""
    flush_consumer_offset_interval: int = 5000
    """Time between two writes of groups' offsets."""

    # Messages
    max_message_size: int = 4 * 1024 * 1024
    """Bytes of the largest body; a frame has at most 16 MiB."""
    message_delay_level: str = levels.DEFAULT
    """The delays of levels 1, 2 and so on."""
    reject_transaction_message: bool = False
    """Refuse half messages."""
    transaction_time_out: int = 6000
    """Time until a producer is asked what became of its half message."""
    transaction_check_max: int = 15
    """Questions to it before the message is given up."""
    transaction_check_interval: int = 60_000
    """Time between two rounds of asking."""
    store_reply_message_enable: bool = True
    """Keep the replies to request messages."""
    recall_message_enable: bool = False
    """Let timer messages be taken back; the answers to their sends have handles then."""
    message_index_enable: bool = True
    """Index messages by their keys, so that they can be found."""
    default_query_max_num: int = 32
    """Messages that a query by unique key finds."""
    max_msgs_num_batch: int = 64
    """Messages that a query by key finds."""

    # Pulling
    long_polling_enable: bool = True
    """Let a pull wait as long as it asks for."""
    short_polling_time_mills: int = 1000
    """Time that it waits otherwise."""
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    """Bytes of one pull."""
    max_transfer_count_on_message_in_memory: int = 32
    """Messages of one pull."""
    enable_property_filter: bool = False
    """Allow SQL92 filters."""
    filter_support_retry: bool = False
    """Apply them to retry topics as well."""

    # The store
    store_path_root_dir: str
    """The folder of everything that is kept; default: ~/store."""
    broker_role: str = "ASYNC_MASTER"
    """``ASYNC_MASTER``; ``SYNC_MASTER``: the answer to a send waits for a slave that has it;
    ``SLAVE``: the copy of the master of this ``brokerName``."""
    flush_disk_type: str = "ASYNC_FLUSH"
    """``ASYNC_FLUSH``: an acknowledged message is in the file; ``SYNC_FLUSH``: it is on stable
    storage."""
    durability: str = ""
    """``memory``, ``write`` or ``fsync`` instead of what ``flushDiskType`` says; not Java's."""
    flush_interval_commit_log: int = 500
    """Time between two syncs in the background."""
    sync_flush_timeout: int = 5000
    """Time that a send waits for stable storage before the answer FLUSH_DISK_TIMEOUT."""
    file_reserved_time: int = 72
    """Hours that messages stay in RocketMQ's topics; in NSQ's they stay until all have them."""

    # Copies
    ha_listen_port: int = 0
    """The port that slaves copy from; 0: ``listenPort`` + 1."""
    ha_master_address: str = ""
    """``host:port`` of the master's ``haListenPort``; empty: as the name servers say."""
    slave_read_enable: bool = True
    """Serve pulls as a slave; Java's default is false."""
    slave_timeout: int = 3000
    """Time that a send to a ``SYNC_MASTER`` waits for a slave before the answer
    FLUSH_SLAVE_TIMEOUT."""
    ha_slave_fallbehind_max: int = 256 * 1024 * 1024
    """Bytes that a slave may be behind, else the answer is SLAVE_NOT_AVAILABLE at once."""
    replication_secret_file: str = ""
    """File with the secret that a master and its slaves share; needed with access rules or TLS;
    not Java's."""
    tls_ha_enable: bool = False
    """Speak TLS at the port for slaves, and with a master's, with the certificate of
    ``tls.server.certPath``; not Java's."""
    tls_ha_trust_cert_path: str = ""
    """Authorities of the certificates of a master and its slaves (PEM); empty: the system's; not
    Java's."""
    tls_ha_need_client_auth: str = "none"
    """``require``: whoever asks at the port for slaves needs a certificate of these authorities;
    ``none``: it need not; not Java's."""
    promoted_broker_role: str = "ASYNC_MASTER"
    """The role of this slave once it is promoted: ``ASYNC_MASTER`` or ``SYNC_MASTER``; not
    Java's."""
    needs_lease: bool = False
    """Take messages only while ``penstock lease`` renews the lease of this broker; not Java's."""
    promote_max_lag: str = "1s"
    """The most that the promotion of this slave may lose without ``--force``: a time or a number of
    messages; not Java's."""
    promote_before_hook: str = ""
    """Shell command before this slave becomes master; an exit code other than 0 refuses it; not
    Java's."""
    promote_after_hook: str = ""
    """Shell command once this broker, promoted, takes messages; not Java's."""

    # Without effect; mqadmin's exportConfigs fails when it does not find them
    filter_server_nums: int = 0
    """No effect; mqadmin's exportConfigs wants to see it."""
    msg_trace_topic_name: str = names.TRACE_TOPIC
    """No effect; mqadmin's exportConfigs wants to see it."""

    # NSQ beside it
    nsq_tcp_address: str = ""
    """``host:port`` of NSQ's TCP port; empty: closed; not Java's."""
    nsq_http_address: str = ""
    """``host:port`` of NSQ's HTTP port; empty: closed; not Java's."""
    nsq_group_retention: int = 0
    """Hours after which a group of readers of the log that does not move is deleted; 0: never;
    not Java's."""
    nsq_open: bool = False
    """Consent to open ports of NSQ though RocketMQ's is closed by access rules or TLS; not
    Java's."""

    # Access rules
    acl_enable: bool = False
    """Check access rules."""
    acl_directory: str = ""
    """The folder of ``plain_acl.yml``; empty: RocketMQ's home, or the store's configuration;
    not Java's."""

    java_names: ClassVar[dict[str, str]] = {
        **TlsSettings.java_names,
        "brokerIP1": "broker_ip1",
        "useTLS": "use_tls",
        "tls.client.trustCertPath": "tls_client_trust_cert_path",
        "tls.client.authServer": "tls_client_auth_server",
        "tls.ha.enable": "tls_ha_enable",
        "tls.ha.trustCertPath": "tls_ha_trust_cert_path",
        "tls.ha.need.client.auth": "tls_ha_need_client_auth",
    }
    at_start_only: ClassVar[frozenset[str]] = frozenset(
        (
            "brokerClusterName", "brokerName", "brokerId", "brokerIP1", "listenPort",
            "bindAddress", "monitoringAddress", "serverChannelMaxIdleTimeSeconds",
            "syncFlushTimeout", "storePathRootDir", "brokerRole", "flushDiskType", "durability",
            "flushIntervalCommitLog", "messageDelayLevel", "traceTopicEnable",
            "messageIndexEnable", "useTLS", "tls.client.trustCertPath", "tls.client.authServer",
            "nsqTcpAddress", "nsqHttpAddress", "nsqGroupRetention", "nsqOpen", "aclEnable",
            "aclDirectory", "haListenPort", "haMasterAddress", "slaveTimeout",
            "haSlaveFallbehindMax", "replicationSecretFile",
            "tls.ha.enable", "tls.ha.trustCertPath", "tls.ha.need.client.auth",
            "promotedBrokerRole", "needsLease", "promoteMaxLag", "promoteBeforeHook",
            "promoteAfterHook",
        )
    )  # fmt: skip
    """Properties fixed for the life of the process: no command changes them, only the file."""
    fixed: ClassVar[frozenset[str]] = (
        TlsSettings.fixed
        | at_start_only
        | frozenset(("configBlackList", "brokerConfigPath", "rocketmqHome"))
    )
    important: ClassVar[tuple[str, ...]] = (
        "namesrvAddr", "brokerClusterName", "brokerName", "brokerId", "brokerIP1",
        "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "traceTopicEnable",
        "rejectTransactionMessage", "transactionTimeOut", "transactionCheckMax",
        "transactionCheckInterval", "aclEnable", "storePathRootDir", "flushIntervalCommitLog",
        "fileReservedTime", "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInMemory", "messageIndexEnable", "brokerRole", "flushDiskType",
    )  # fmt: skip
    """The properties that ``mqbroker -m`` prints."""
    without_effect: ClassVar[frozenset[str]] = frozenset(
        (
            # Where things are: all is below storePathRootDir, and nothing needs RocketMQ's home.
            "rocketmqHome", "storePathCommitLog", "storePathConsumeQueue",
            "storePathIndex", "storeCheckpoint", "abortFile", "readOnlyCommitLogStorePaths",
            "messageStorePlugIn", "brokerIP2",
            # Pools of threads, their queues, and how long they let a request wait
            "sendMessageThreadPoolNums", "putMessageFutureThreadPoolNums",
            "pullMessageThreadPoolNums", "processReplyMessageThreadPoolNums",
            "queryMessageThreadPoolNums", "adminBrokerThreadPoolNums",
            "clientManageThreadPoolNums", "consumerManageThreadPoolNums",
            "heartbeatThreadPoolNums", "endTransactionThreadPoolNums",
            "sendThreadPoolQueueCapacity", "putThreadPoolQueueCapacity",
            "pullThreadPoolQueueCapacity", "replyThreadPoolQueueCapacity",
            "queryThreadPoolQueueCapacity", "clientManagerThreadPoolQueueCapacity",
            "consumerManagerThreadPoolQueueCapacity", "heartbeatThreadPoolQueueCapacity",
            "endTransactionPoolQueueCapacity", "brokerFastFailureEnable",
            "waitTimeMillsInSendQueue", "waitTimeMillsInPullQueue", "waitTimeMillsInHeartbeatQueue",
            "waitTimeMillsInTransactionQueue", "osPageCacheBusyTimeOutMills",
            # Buffers and threads of connections
            "serverWorkerThreads", "serverCallbackExecutorThreads", "serverSelectorThreads",
            "serverOnewaySemaphoreValue", "serverAsyncSemaphoreValue", "serverSocketSndBufSize",
            "serverSocketRcvBufSize", "writeBufferHighWaterMark", "writeBufferLowWaterMark",
            "serverSocketBacklog", "serverPooledByteBufAllocatorEnable", "useEpollNativeSelector",
            "clientWorkerThreads", "clientOnewaySemaphoreValue", "clientAsyncSemaphoreValue",
            "connectTimeoutMillis", "channelNotActiveInterval", "clientChannelMaxIdleTimeSeconds",
            "clientSocketSndBufSize", "clientSocketRcvBufSize", "clientCallbackExecutorThreads",
            "clientPooledByteBufAllocatorEnable", "clientCloseSocketIfTimeout",
            "transferMsgByHeap", "forceRegister",
            # Files of Java's store; ours deletes what has lapsed as it goes
            "deleteWhen", "diskMaxUsedSpaceRatio",
            "mappedFileSizeCommitLog", "mapedFileSizeCommitLog", "mappedFileSizeConsumeQueue",
            "mapedFileSizeConsumeQueue", "enableConsumeQueueExt", "mappedFileSizeConsumeQueueExt",
            "bitMapLengthConsumeQueueExt", "commitIntervalCommitLog", "flushCommitLogTimed",
            "useReentrantLockWhenPutMessage", "flushIntervalConsumeQueue", "cleanResourceInterval",
            "deleteCommitLogFilesInterval", "deleteConsumeQueueFilesInterval",
            "destroyMapedFileIntervalForcibly", "redeleteHangedFileInterval",
            "putMsgIndexHightWater", "checkCRCOnRecover", "flushCommitLogLeastPages",
            "commitCommitLogLeastPages", "flushLeastPagesWhenWarmMapedFile",
            "flushConsumeQueueLeastPages", "flushCommitLogThoroughInterval",
            "commitCommitLogThoroughInterval", "flushConsumeQueueThoroughInterval",
            "maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk",
            "accessMessageInMemoryMaxRatio", "maxHashSlotNum", "maxIndexNum", "messageIndexSafe",
            "cleanFileForciblyEnable", "warmMapedFileEnable", "debugLockEnable",
            "transientStorePoolEnable", "transientStorePoolSize", "fastFailIfNoBufferInStorePool",
            "diskFallRecorded", "enableScheduleMessageStats", "enableScheduleAsyncDeliver",
            "scheduleAsyncDeliverMaxPendingLimit", "scheduleAsyncDeliverMaxResendNum2Blocked",
            "flushDelayOffsetInterval", "flushConsumerOffsetHistoryInterval",
            # Filters precomputed per message
            "enableCalcFilterBitMap", "expectConsumerNumUseFilter", "maxErrorRateOfBloomFilter",
            "filterDataCleanTimeSpan",
            # Slaves: how Java's ask and are asked
            "haSendHeartbeatInterval", "haHousekeepingInterval",
            "haTransferBatchSize", "offsetCheckInSlave", "duplicationEnable",
            "enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId",
            "preferredLeaderId", "storePathDLedgerCommitLog", "isEnableBatchPush",
            # The rest
            "highSpeedMode", "commercialEnable", "commercialTimerCount", "commercialTransCount",
            "commercialBigCount", "commercialBaseCount", "maxDelayTime", "enableDetailStat",
            "autoDeleteUnusedStats", "isolateLogEnable", "startAcceptSendRequestTimeStamp",
            "disableConsumeIfConsumerReadSlowly", "consumerFallbehindThreshold", "enableLmq",
            "enableMultiDispatch", "maxLmqConsumeQueueNum", "fetchNamesrvAddrByAddressServer",
            "rmqAddressServerDomain", "rmqAddressServerSubGroup",
        )
    )  # fmt: skip

    def __init__(self) -> None:
        self.namesrv_addr = os.environ.get("NAMESRV_ADDR", "")
        self.broker_name = socket.gethostname() or "DEFAULT_BROKER"
        self.broker_ip1 = local_address()
        self.store_path_root_dir = _default_store()
        self.broker_config_path = os.path.join(
            self.store_path_root_dir, "config", "broker.properties"
        )

    def check(self) -> list[str]:
        """Warnings for the user, in one line each. Raises ConfigError."""
        self.check_values()
        if self.broker_role not in (*MASTERS, SLAVE):
            raise ConfigError(
                f"brokerRole must be ASYNC_MASTER, SYNC_MASTER or SLAVE, not {self.broker_role!r}"
            )
        if self.promoted_broker_role not in MASTERS:
            raise ConfigError(
                "promotedBrokerRole must be ASYNC_MASTER or SYNC_MASTER, not "
                f"{self.promoted_broker_role!r}"
            )
        try:
            _ = self.max_lag
        except ValueError as error:
            raise ConfigError(f"promoteMaxLag must be {MAX_LAG.form}: {error}") from None
        self._check_ha_tls()
        warnings = []
        if self.is_sync_master and not self.ha_address():
            raise ConfigError(
                "brokerRole=SYNC_MASTER with "
                + (
                    f"{self.closed_by} needs {_SHUT}"
                    if self.closed_by
                    else "durability=memory would wait for ever: nothing of it is copied"
                )
            )
        if self.msg_trace_topic_name != names.TRACE_TOPIC:
            warnings.append(f"msgTraceTopicName has no effect: traces are in {names.TRACE_TOPIC}")
        if self.broker_role == SLAVE:
            self._check_slave()
        elif self.broker_id:
            warnings.append(f"brokerId={self.broker_id} becomes 0, a master's")
            self.broker_id = 0
        if self.max_message_size > FRAME_MAX - _FRAME_ROOM:
            warnings.append(
                f"maxMessageSize={self.max_message_size}: clients cannot send more "
                f"than {FRAME_MAX} bytes in one frame"
            )
        if self.tls_mode == "enforcing" and self.ha_address() and not self.tls_ha_enable:
            warnings.append(
                "slaves copy without TLS what tls.server.mode=enforcing encrypts: "
                "tls.ha.enable=true encrypts that too"
            )
        self._check_nsq_ports()
        return warnings

    @property
    def max_lag(self) -> MaxLag:
        """The most that the promotion of this slave may lose without force. Raises ValueError."""
        return MaxLag.parse(self.promote_max_lag)

    @property
    def is_slave(self) -> bool:
        """True of the copy of another broker."""
        return self.broker_role == SLAVE

    @property
    def is_sync_master(self) -> bool:
        """True of a master whose answers wait for a slave."""
        return self.broker_role == "SYNC_MASTER"

    def as_master(self) -> BrokerSettings:
        """A copy of the settings for a slave that was promoted."""
        master = copy(self)
        master.broker_role, master.broker_id = self.promoted_broker_role, 0
        return master

    def _check_slave(self) -> None:
        """Raise ConfigError for a slave that could follow nobody, or would be a master."""
        if self.broker_id <= 0:
            raise ConfigError("brokerRole=SLAVE needs a brokerId greater than 0")
        if self.durability_level is Durability.MEMORY:
            raise ConfigError("brokerRole=SLAVE needs durability=write or fsync")
        if not (self.ha_master_address or self.name_servers()):
            raise ConfigError(
                "brokerRole=SLAVE needs namesrvAddr, to find the master there, or haMasterAddress"
            )
        if not self.may_be_copied:
            raise ConfigError(f"brokerRole=SLAVE with {self.closed_by} needs {_SHUT}")

    def _check_ha_tls(self) -> None:
        """Raise ConfigError when the properties of TLS between master and slaves do not fit."""
        if self.tls_ha_need_client_auth not in ("none", "require"):
            raise ConfigError(
                "tls.ha.need.client.auth must be none or require, not "
                f"{self.tls_ha_need_client_auth!r}"
            )
        needs_certificates = self.tls_ha_need_client_auth == "require"
        if not self.tls_ha_enable:
            if needs_certificates:
                raise ConfigError("tls.ha.need.client.auth=require needs tls.ha.enable=true")
            return
        if not (self.tls_cert_path and self.tls_key_path):
            raise ConfigError("tls.ha.enable=true needs tls.server.certPath and tls.server.keyPath")
        if needs_certificates and not self.tls_ha_trust_cert_path:
            raise ConfigError("tls.ha.need.client.auth=require needs tls.ha.trustCertPath")

    def ha_tls(self) -> ServerTls | None:
        """The TLS of the port for slaves; None without. Raises ConfigError."""
        if not self.tls_ha_enable:
            return None
        needs_certificates = self.tls_ha_need_client_auth == "require"
        return ServerTls(
            self.tls_cert_path,
            self.tls_key_path,
            client_auth=ClientAuth.VERIFIED if needs_certificates else ClientAuth.NONE,
            ca_file=self.tls_ha_trust_cert_path,
        )

    def ha_url(self, address: str) -> str:
        """The address of a port for slaves as another broker asks it; empty for an empty one."""
        is_plain = not address or "://" in address or not self.tls_ha_enable
        return address if is_plain else f"https://{address}"

    @property
    def closed_by(self) -> str:
        """The properties that close RocketMQ's port to strangers; empty if none does."""
        return " and ".join(
            ["aclEnable=true"] * self.acl_enable
            + ["tls.server.mode=enforcing"] * (self.tls_mode == "enforcing")
        )

    @property
    def may_be_copied(self) -> bool:
        """True if the port for slaves opens nothing to strangers that is closed to them."""
        is_shut = self.replication_secret_file or self.tls_ha_need_client_auth == "require"
        return bool(is_shut) or not self.closed_by

    def ha_address(self) -> str:
        """The address of the port for slaves; empty if it stays closed."""
        if not self.may_be_copied or self.durability_level is Durability.MEMORY:
            return ""
        port = self.ha_listen_port or (self.listen_port and self.listen_port + 1)
        return join_host_port(self.bind_address, port)

    def _check_nsq_ports(self) -> None:
        """Raise ConfigError if NSQ's ports bypass the TLS or the accounts of RocketMQ's port, or
        promise more than they could: NSQ has no answer that says that no slave has a message.
        """
        if not (self.nsq_tcp_address or self.nsq_http_address):
            return
        if self.is_sync_master or (self.is_slave and self.as_master().is_sync_master):
            raise ConfigError(
                "NSQ's publishes do not wait for a slave as those to a SYNC_MASTER "
                "do: leave nsqTcpAddress and nsqHttpAddress out, or run nsqd with "
                "--rocketmq-address and --replicas-acked=1, where both "
                "wait"
            )
        words = self.closed_by
        if words and not self.nsq_open:
            raise ConfigError(
                f"nsqTcpAddress and nsqHttpAddress open to everybody what {words} "
                "closes: leave them out, set nsqOpen=true, or run nsqd with "
                "--rocketmq-address, which has TLS and AUTH for NSQ"
            )

    def check_values(self) -> None:
        """Raise ConfigError for a value that makes no sense."""
        if self.flush_disk_type not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise ConfigError(
                f"flushDiskType must be ASYNC_FLUSH or SYNC_FLUSH, not {self.flush_disk_type!r}"
            )
        if self.durability not in ("", *(level.value for level in Durability)):
            raise ConfigError(f"durability must be memory, write or fsync, not {self.durability!r}")
        if not 0 <= self.broker_permission <= 7:
            raise ConfigError(f"brokerPermission must be 0 to 7, not {self.broker_permission}")
        for name in (
            "listenPort",
            "maxMessageSize",
            "defaultTopicQueueNums",
            "fileReservedTime",
            "nsqGroupRetention",
            "haListenPort",
        ):
            if getattr(self, self.declared()[name]) < 0:
                raise ConfigError(f"{name} must not be negative")
        for name, port in (("listenPort", self.listen_port), ("haListenPort", self.ha_listen_port)):
            if port > 65535:
                raise ConfigError(f"{name} must be 0 to 65535, not {port}")
        for name in ("brokerName", "brokerClusterName"):
            if not getattr(self, self.declared()[name]):
                raise ConfigError(f"{name} must not be empty")
        levels.DelayLevels(self.message_delay_level)
        self.name_servers()

    def update(self, values: dict[str, str]) -> list[str]:
        """Take over these properties, all or none; the unknown ones are returned.

        Raises ConfigError, also when their values do not fit together.
        """
        # On a copy: values may fit alone and not together, and then all stay as they were.
        changed = copy(self)
        unknown = TlsSettings.update(changed, values)
        changed.check_values()
        vars(self).update(vars(changed))
        return unknown

    @property
    def access_rules_directory(self) -> str:
        """The folder of ``plain_acl.yml``."""
        if self.acl_directory:
            return self.acl_directory
        home = os.environ.get("ROCKETMQ_HOME")
        return f"{home}/conf" if home else f"{self.store_path_root_dir}/config"

    def checked_store(self) -> str:
        """The store's folder. Raises ConfigError if none is set and the user has no home directory,
        where Java makes a folder ``?`` wherever it was started.
        """
        if self.store_path_root_dir == _default_store() and not os.path.isabs(_default_store()):
            raise ConfigError("this user has no home directory for it: set storePathRootDir")
        return self.store_path_root_dir

    def name_servers(self) -> list[str]:
        """``host:port`` of each name server. Raises ConfigError."""
        found = [word.strip() for word in self.namesrv_addr.split(";") if word.strip()]
        for address in found:
            try:
                host, _port = split_host_port(address)
            except ValueError:
                host = ""
            if not host:
                raise ConfigError(
                    f"the name server address {address!r} is not a host:port, as in "
                    "127.0.0.1:9876;192.168.0.1:9876"
                )
        return list(dict.fromkeys(found))

    @property
    def durability_level(self) -> Durability:
        """The durability that a message has when it is acknowledged."""
        if self.durability:
            return Durability(self.durability)
        return Durability.FSYNC if self.flush_disk_type == "SYNC_FLUSH" else Durability.WRITE

    def important_text(self) -> str:
        """The most important properties as lines ``name=value``."""
        declared = self.declared()
        return java_properties.dumps({n: getattr(self, declared[n]) for n in self.important})


def _default_store() -> str:
    """Java's place, in the user's home directory; no absolute path where the user has none."""
    return os.path.join(os.path.expanduser("~"), "store")
