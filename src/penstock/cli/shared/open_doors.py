"""The check that RocketMQ's port does not let in clients whom nsqd's flags keep out.

Both ports serve the same topics, so a client that may not publish or read through one must not do
it through the other. ``BrokerSettings.check`` covers the opposite case, an mqbroker with NSQ ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import ConfigError
from penstock.core.settings.tls_kinds import TlsRequired

if TYPE_CHECKING:
    from penstock.nsq.nsqd.options import NsqdOptions
    from penstock.rocketmq.broker.settings import BrokerSettings


def check(options: NsqdOptions, settings: BrokerSettings) -> None:
    """Raise ConfigError if RocketMQ's port is more open than nsqd's, unless a flag allows that."""
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
