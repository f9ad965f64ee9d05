"""RocketMQ's port of an nsqd: the settings of its broker, as nsqd's flags have them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from penstock.cli.shared import open_doors
from penstock.core.errors import ConfigError
from penstock.net.address import split_host_port
from penstock.rocketmq.broker.settings import BrokerSettings

if TYPE_CHECKING:
    from penstock.nsq.nsqd.options import NsqdOptions

logger = logging.getLogger("penstock.nsqd")

_NSQDS_OWN: Final = (
    "storePathRootDir", "durability", "flushDiskType", "flushIntervalCommitLog",
    "listenPort", "bindAddress", "nsqTcpAddress", "nsqHttpAddress",
    "nsqGroupRetention", "monitoringAddress",
)  # fmt: skip
"""Properties for which nsqd has flags."""


def rocketmq_settings(options: NsqdOptions) -> BrokerSettings:
    """The settings of the broker that nsqd's flags ask for. Raises ConfigError."""
    settings = _settings(options)
    if settings.is_slave:
        raise ConfigError(f"{options.rocketmq_config}: brokerRole=SLAVE is for mqbroker; nsqd "
                          "copies RocketMQ's part of a node too with --follow")  # fmt: skip
    open_doors.check(options, settings)
    if settings.acl_enable and not options.auth_http_addresses:
        logger.warning("aclEnable=true does not protect NSQ's TCP port; --auth-http-address does")
    return settings


def _settings(options: NsqdOptions) -> BrokerSettings:
    settings = BrokerSettings.load_file(options.rocketmq_config or None)
    defaults = BrokerSettings()
    for name, attribute in settings.declared().items():
        if name in _NSQDS_OWN and getattr(settings, attribute) != getattr(defaults, attribute):
            logger.warning("%s: the property %s has no effect here, nsqd's flags say it",
                         options.rocketmq_config, name)  # fmt: skip
    try:
        host, port = split_host_port(options.rocketmq_address)
    except ValueError as error:
        raise ConfigError(f"--rocketmq-address={options.rocketmq_address}: {error}") from None
    settings.listen_port, settings.bind_address = port, host or "0.0.0.0"
    if host not in ("", "0.0.0.0", "::"):
        settings.broker_ip1 = host
    settings.store_path_root_dir = options.data_path or os.getcwd()
    settings.nsq_tcp_address = settings.nsq_http_address = ""  # these ports are nsqd's own
    if options.rocketmq_namesrv_addresses:
        settings.update({"namesrvAddr": ";".join(options.rocketmq_namesrv_addresses)})
    if options.rocketmq_config:
        settings.broker_config_path = os.path.abspath(options.rocketmq_config)
    return settings
