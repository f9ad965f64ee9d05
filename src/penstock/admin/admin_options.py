"""Every flag of nsqadmin, once: with its TOML key, default and help (NSQ spec 5.7)."""

from __future__ import annotations

import logging
import posixpath
import socket
from pathlib import Path
from urllib.parse import urlsplit

from penstock.core.errors import ConfigError
from penstock.core.quote import quote
from penstock.core.redaction import without_secrets
from penstock.core.settings.option_kinds import DURATION, LOG_LEVEL
from penstock.core.settings.options import option
from penstock.core.settings.web_options import WebOptions
from penstock.core.units import HOUR, MINUTE, SECOND

logger = logging.getLogger("penstock.nsqadmin")


class AdminOptions(WebOptions):
    """The options of one nsqadmin; durations in nanoseconds."""

    log_level: int = option(
        logging.INFO, "log verbosity: debug, info, warn, error, or fatal", kind=LOG_LEVEL
    )
    log_prefix: str = option("[nsqadmin] ", "what every log line starts with")
    verbose: bool = option(False, "[deprecated] has no effect, use --log-level")
    http_address: str = option("0.0.0.0:4171", "<addr>:<port> to listen on for HTTP clients")
    base_path: str = option("/", "path under which everything is, as behind a proxy")
    dev_static_dir: str = option("", "(development only) directory of the pages' files")

    lookupd_http_addresses: tuple[str, ...] = option(
        (),
        "HTTP address of an nsqlookupd (may be given several times)",
        flag="lookupd-http-address",
        key="nsqlookupd_http_addresses",
    )
    nsqd_http_addresses: tuple[str, ...] = option(
        (),
        "HTTP address of an nsqd (may be given several times)",
        flag="nsqd-http-address",
        key="nsqd_http_addresses",
    )
    rocketmq_namesrv_addresses: tuple[str, ...] = option(
        (),
        "address of a RocketMQ name server; several with ; between, or given several times",
        flag="rocketmq-namesrv-address",
        key="rocketmq_namesrv_addresses",
    )
    rocketmq_client_opts: tuple[str, ...] = option(
        (),
        "option of nsqadmin as a client of RocketMQ: <option>,<value>, such as access_key,me "
        "(may be given several times)",
        flag="rocketmq-client-opt",
        key="rocketmq_client_opts",
    )
    http_client_connect_timeout: int = option(
        2 * SECOND, "time to connect to a node", kind=DURATION
    )
    http_client_request_timeout: int = option(
        5 * SECOND, "time for a whole request to a node", kind=DURATION
    )
    http_client_tls_insecure_skip_verify: bool = option(
        False, "take any certificate that a node shows"
    )
    http_client_tls_root_ca_file: str = option("", "certificates that nodes' ones are checked with")
    http_client_tls_cert: str = option("", "certificate file to show to nodes")
    http_client_tls_key: str = option("", "key file of that certificate")

    graphite_url: str = option("", "address of graphite, http://host[:port]")
    proxy_graphite: bool = option(False, "hand requests for /render on to graphite")
    statsd_prefix: str = option(
        "nsq.%s", "prefix of the nodes' keys in statsd (%s: the host; must be as at nsqd)"
    )
    statsd_counter_format: str = option(
        "stats.counters.%s.count", "how this statsd writes the keys of counters; empty: as they are"
    )
    statsd_gauge_format: str = option(
        "stats.gauges.%s", "how this statsd writes the keys of gauges; empty: as they are"
    )
    statsd_interval: int = option(
        MINUTE, "interval at which nsqd pushes to statsd (must be as at nsqd)", kind=DURATION
    )

    notification_http_endpoint: str = option(
        "", "URL to which actions of administrators are POSTed"
    )
    allow_config_from_cidr: str = option(
        "127.0.0.1/8", "network from which /config may be used; empty: any"
    )
    acl_http_header: str = option(
        "X-Forwarded-User", "header in which a proxy says who the user is"
    )
    admin_users: tuple[str, ...] = option(
        (),
        "user who may change things, as that header has it; without this flag everybody may "
        "(may be given several times)",
        flag="admin-user",
        key="admin_users",
    )
    trusted_proxies: tuple[str, ...] = option(
        (),
        "network of the proxies whose header is believed; without this flag anybody's is "
        "(may be given several times)",
        flag="trusted-proxy",
        key="trusted_proxies",
    )
    history_interval: int = option(
        10 * SECOND, "time between looks at all nodes for the history; 0: no history", kind=DURATION
    )

    history_path: str = option(
        "", "file that keeps the last 24 h of figures over a restart; empty: memory alone"
    )

    prometheus_url: str = option(
        "", "URL of a Prometheus that scrapes the nodes, for charts of 7 and 30 days; empty: none"
    )

    @property
    def has_nodes(self) -> bool:
        """False where there is nothing of NSQ to look at: RocketMQ's servers alone."""
        return bool(self.lookupd_http_addresses or self.nsqd_http_addresses)

    @property
    def watch_s(self) -> float:
        """Seconds between looks at all nodes; 0 for no history."""
        return self.history_interval / SECOND if self.has_nodes else 0.0

    @property
    def connect_s(self) -> float:
        """Seconds to connect; 0 means that nobody wants a bound, and so is one that is far off."""
        return _seconds(self.http_client_connect_timeout)

    @property
    def request_s(self) -> float:
        """Seconds for a whole request, likewise."""
        return _seconds(self.http_client_request_timeout)


def checked(options: AdminOptions) -> AdminOptions:
    """The options as they are used. Raises ConfigError with nsqadmin's texts."""
    lookupds, nsqds = options.lookupd_http_addresses, options.nsqd_http_addresses
    if not (nsqds or lookupds or options.rocketmq_namesrv_addresses):
        raise ConfigError("--nsqd-http-address or --lookupd-http-address required")
    if nsqds and lookupds:
        raise ConfigError("use --nsqd-http-address or --lookupd-http-address not both")
    pair = ("--http-client-tls-cert", "--http-client-tls-key")
    if bool(options.http_client_tls_cert) != bool(options.http_client_tls_key):
        given, missing = pair if options.http_client_tls_cert else pair[::-1]
        raise ConfigError(f"{missing} must be specified with {given}")
    for flag, addresses in (("--lookupd-http-address", lookupds), ("--nsqd-http-address", nsqds)):
        for address in addresses:
            try:
                resolve(address)
            except ValueError as error:
                text = f"failed to resolve {flag} ({without_secrets(address)}) - {error}"
                raise ConfigError(text) from error
    if options.history_interval and options.history_interval < SECOND:
        raise ConfigError("--history-interval must be 1s at least, or 0")
    _check_urls(options)
    if options.history_path:
        try:
            Path(options.history_path).parent.mkdir(parents=True, exist_ok=True)
            Path(options.history_path).touch()
            with Path(options.history_path).open("r+b"):
                pass
        except OSError as error:
            raise ConfigError(f"--history-path: {error.filename}: {error.strerror}") from error
    return options.replace(base_path=clean_base_path(options.base_path))


def _check_urls(options: AdminOptions) -> None:
    """Raise ConfigError for a URL to which no request can be sent.

    Graphite's is the browsers' without --proxy-graphite, and may be a path on nsqadmin's own host.
    Go's nsqadmin starts with any then; so does ours, with a warning.
    """
    graphite, endpoint = options.graphite_url, options.notification_http_endpoint
    if options.proxy_graphite:
        _check_url("--graphite-url", graphite)
    # Go's nsqadmin checks it with --proxy-graphite only (NSQ spec 5.7), and starts here.
    elif graphite and not graphite.startswith("/"):
        try:
            _check_url("--graphite-url", graphite)
        except ConfigError as error:
            logger.warning("%s", error)
    if endpoint:
        _check_url("--notification-http-endpoint", endpoint)
    if options.prometheus_url:
        _check_url("--prometheus-url", options.prometheus_url)


def _check_url(flag: str, url: str) -> None:
    reason = ""
    try:
        parts = urlsplit(url)
        if not parts.scheme and url.startswith(":"):
            reason = "missing protocol scheme"
        elif parts.scheme not in ("http", "https") or not parts.hostname:
            reason = "give http://HOST[:PORT]"
    except ValueError as error:
        reason = str(error)
    if reason:
        shown = without_secrets(url)
        raise ConfigError(f"failed to parse {flag} ({shown}) - parse {quote(shown)}: {reason}")


def _seconds(ns: int) -> float:
    return (ns if ns > 0 else HOUR) / SECOND


def clean_base_path(path: str) -> str:
    """``nsq/admin/`` is ``/nsq/admin``, nothing is ``/``."""
    return posixpath.normpath("/" + path.lstrip("/"))


def resolve(address: str) -> None:
    """Check that host and port mean something; ValueError with Go's text when not."""
    head, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError(f"address {without_secrets(address)}: missing port in address")
    if ":" in head and not (head.startswith("[") and head.endswith("]")):
        raise ValueError(f"address {without_secrets(address)}: too many colons in address")
    try:
        number = int(port) if port.isascii() and port.isdigit() else socket.getservbyname(port)
    except OSError:
        raise ValueError(f"lookup tcp/{port}: unknown port") from None
    if number > 65535:
        raise ValueError(f"address {port}: invalid port")
    host = head.strip("[]")
    try:
        socket.getaddrinfo(host or None, number, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ValueError(f"lookup {host}: no such host") from None
