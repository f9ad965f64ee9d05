"""The properties of the name server, under the names of Java's configuration files."""

from __future__ import annotations

import os
from typing import ClassVar

from penstock.rocketmq.tls_settings import TlsSettings


class NamesrvSettings(TlsSettings):
    """Ports, paths and habits; ``-c FILE`` and UPDATE_NAMESRV_CONFIG set them."""

    listen_port: int = 9876
    """The port of brokers and clients."""
    bind_address: str = "0.0.0.0"
    """The address that ``listenPort`` is opened on; not Java's."""
    monitoring_address: str = ""
    """``host:port`` of HTTP for /live, /ping, /ready and /metrics; empty: off; not Java's."""
    kv_config_path: str = os.path.join(os.path.expanduser("~"), "namesrv", "kvConfig.json")
    """The stored values, in the file format of Java."""
    config_store_path: str = os.path.join(os.path.expanduser("~"), "namesrv", "namesrv.properties")
    """The file for what UPDATE_NAMESRV_CONFIG changes; read at the start only by ``-c``."""
    product_env_name: str = "center"
    """Kept, without effect."""
    cluster_test: bool = False
    """Kept, without effect."""
    order_message_enable: bool = False
    """Put the order configuration of a topic into its routes."""
    return_order_topic_config_to_broker: bool = True
    """Give brokers the order configuration of all topics when they register."""
    scan_not_active_broker_interval: int = 5000
    """Time between two looks for silent brokers."""
    server_channel_max_idle_time_seconds: int = 120
    """Seconds until a silent connection is closed."""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    """Properties that UPDATE_NAMESRV_CONFIG may not change, ``;`` between them."""

    fixed: ClassVar[frozenset[str]] = TlsSettings.fixed | frozenset(
        (
            "configBlackList",
            "configStorePath",
            "kvConfigPath",
            "monitoringAddress",
            "rocketmqHome",
        )
    )
    without_effect: ClassVar[frozenset[str]] = frozenset(
        (
            "rocketmqHome", "serverWorkerThreads", "serverCallbackExecutorThreads",
            "serverSelectorThreads", "serverOnewaySemaphoreValue", "serverAsyncSemaphoreValue",
            "serverSocketSndBufSize", "serverSocketRcvBufSize", "writeBufferHighWaterMark",
            "writeBufferLowWaterMark", "serverSocketBacklog", "useEpollNativeSelector",
            "serverPooledByteBufAllocatorEnable", "unRegisterBrokerQueueCapacity",
            "clientRequestThreadPoolNums", "defaultThreadPoolNums",
            "clientRequestThreadPoolQueueCapacity", "defaultThreadPoolQueueCapacity",
        )
    )  # fmt: skip
