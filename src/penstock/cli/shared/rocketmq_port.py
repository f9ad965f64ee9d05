"""RocketMQ's port of an nsqd: the settings of its broker, as nsqd's flags have them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigError
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.net.address import split_host_port
from penstock.rocketmq.broker.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from penstock.nsq.nsqd.nsqd_options import NsqdOptions

logger = logging.getLogger("penstock.nsqd")

_NSQDS_OWN: Final = (
    "storePathRootDir",
    "durability",
    "flushDiskType",
    "flushIntervalCommitLog",
    "listenPort",
    "bindAddress",
    "nsqTcpAddress",
    "nsqHttpAddress",
    "nsqGroupRetention",
    "monitoringAddress",
)
"""Properties for which nsqd has flags."""


def rocketmq_settings(options: NsqdOptions) -> BrokerSettings:
    """The settings of the broker that nsqd's flags ask for. Raises ConfigError."""
    settings = _settings(options)
    if settings.is_slave:
        raise ConfigError(
            f"{options.rocketmq_config}: brokerRole=SLAVE is for mqbroker; nsqd "
            "copies RocketMQ's part of a node too with --follow"
        )
    if settings.is_sync_master:
        raise ConfigError(
            f"{options.rocketmq_config}: brokerRole=SYNC_MASTER is for mqbroker; "
            "with nsqd's --replicas-acked=1 all publishes wait for a "
            "copy"
        )
    check_open_doors(options, settings)
    if settings.acl_enable and not options.auth_http_addresses:
        logger.warning("aclEnable=true does not protect NSQ's TCP port; --auth-http-address does")
    return settings


def _settings(options: NsqdOptions) -> BrokerSettings:
    settings = BrokerSettings.load_file(options.rocketmq_config or None)
    defaults = BrokerSettings()
    for name, attribute in settings.declared().items():
        if name in _NSQDS_OWN and getattr(settings, attribute) != getattr(defaults, attribute):
            logger.warning(
                "%s: the property %s has no effect here, nsqd's flags say it",
                options.rocketmq_config,
                name,
            )
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


def check_open_doors(options: NsqdOptions, settings: BrokerSettings) -> None:
    """Raise ConfigError if RocketMQ's port is more open than nsqd's, unless a flag allows that.

    Both ports serve the same topics, so a client that may not publish or read through one must not
    do it through the other. ``BrokerSettings.check`` covers the opposite case, an mqbroker with NSQ
    ports.
    """
    if options.rocketmq_open:
        return
    found = _open_doors(options, settings)
    if found:
        flags, remedies = (", ".join(words) for words in zip(*found, strict=True))
        raise ConfigError(
            f"--rocketmq-address={options.rocketmq_address} opens to everybody what {flags} closes:"
            f" set {remedies} in the file of --rocketmq-config, or use --rocketmq-open"
        )


def _open_doors(options: NsqdOptions, settings: BrokerSettings) -> list[tuple[str, str]]:
    """The flags that protect nsqd's ports, each with the properties that protect RocketMQ's too."""
    found = []
    is_tls = settings.tls_mode == "enforcing"
    if options.tls_needed is not TlsRequired.NO and not is_tls:
        by_policy = options.tls_required is TlsRequired.NO
        flag = "--tls-client-auth-policy" if by_policy else "--tls-required"
        found.append((flag, "tls.server.mode=enforcing"))
    if options.tls_client_auth_policy in ("require", "require-verify"):
        is_verified = options.tls_client_auth_policy == "require-verify"
        is_known = settings.tls_need_client_auth == "require" and (
            settings.tls_auth_client or not is_verified
        )
        if not (is_tls and is_known) and not settings.acl_enable:
            more = " and tls.server.authClient=true" if is_verified else ""
            flag = f"--tls-client-auth-policy={options.tls_client_auth_policy}"
            found.append((flag, f"tls.server.need.client.auth=require{more}, or aclEnable=true"))
    if options.auth_http_addresses and not settings.acl_enable:
        found.append(("--auth-http-address", "aclEnable=true"))
    return found
