"""The properties of the name server, under the names of Java's configuration files."""

from __future__ import annotations

import os
from typing import ClassVar

from penstock.rocketmq.tls_settings import TlsSettings


class NamesrvSettings(TlsSettings):
    """Ports, paths and habits; ``-c FILE`` and UPDATE_NAMESRV_CONFIG set them."""

    listen_port: int = 9876
    bind_address: str = "0.0.0.0"
    monitoring_address: str = ""
    """``host:port`` of HTTP for /ping, /ready and /metrics; empty: off."""
    kv_config_path: str = os.path.join(os.path.expanduser("~"), "namesrv", "kvConfig.json")
    config_store_path: str = os.path.join(os.path.expanduser("~"), "namesrv", "namesrv.properties")
    product_env_name: str = "center"
    cluster_test: bool = False
    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    scan_not_active_broker_interval: int = 5000
    server_channel_max_idle_time_seconds: int = 120
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

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
