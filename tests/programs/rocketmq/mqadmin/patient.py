"""mqadmin on a busy machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.rocketmq.client import Config
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from tools.harness.rocketmq.servers import SECONDS


class PatientAdmin(Admin):
    """One run of the tool, which waits for every answer as long as a busy machine may take."""

    def __init__(self, name_servers: str = "", config: Config | None = None) -> None:
        patient = replace(
            config or Config(),
            connect_timeout=SECONDS,
            request_timeout=SECONDS,
            send_msg_timeout=SECONDS,
        )
        super().__init__(name_servers, patient)

    def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        seconds: float = SECONDS,
    ) -> Command:
        return super().ask(address, code, fields, body, max(seconds, SECONDS))
