"""mqadmin on a busy machine."""

from __future__ import annotations

from dataclasses import replace

from penstock.rocketmq.client import Config
from penstock.rocketmq.mqadmin.admin import Admin
from tools.harness.rocketmq.servers import SECONDS


class PatientAdmin(Admin):
    """One run of the tool, which waits for every answer as long as a busy machine may take."""

    timeout_s = long_timeout_s = SECONDS

    def __init__(self, name_servers: str = "", config: Config | None = None) -> None:
        patient = replace(
            config or Config(),
            connect_timeout=SECONDS,
            request_timeout=SECONDS,
            send_msg_timeout=SECONDS,
        )
        super().__init__(name_servers, patient)
