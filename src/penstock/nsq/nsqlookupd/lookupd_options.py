"""The options of nsqlookupd."""

from __future__ import annotations

import logging
import os

from penstock.core.settings.option_kinds import DURATION, LOG_LEVEL
from penstock.core.settings.options import option
from penstock.core.settings.web_options import WebOptions
from penstock.core.units import MINUTE, SECOND


class LookupdOptions(WebOptions):
    """The flags of nsqlookupd 1.3; times are nanoseconds."""

    log_level: int = option(
        logging.INFO, "log verbosity: debug, info, warn, error, or fatal", kind=LOG_LEVEL
    )
    log_prefix: str = option("[nsqlookupd] ", "what every log line starts with")
    verbose: bool = option(False, "[deprecated] has no effect, use --log-level")
    tcp_address: str = option("0.0.0.0:4160", "<addr>:<port> to listen on for nsqd")
    http_address: str = option("0.0.0.0:4161", "<addr>:<port> to listen on for HTTP clients")
    broadcast_address: str = option(
        help="address that this nsqlookupd reports to others",
        factory=lambda: os.uname().nodename,
    )
    inactive_producer_timeout: int = option(
        5 * MINUTE, "how long a silent nsqd stays in look-ups", kind=DURATION
    )
    tombstone_lifetime: int = option(
        45 * SECOND, "how long a tombstoned nsqd stays hidden from look-ups", kind=DURATION
    )
