"""The operator's commands around a promotion: one that may refuse it, one that runs after it.

The command before is where a lease is taken: of several nodes that are promoted at once, it lets
one go on. It runs in a shell, in a new process group, with what it needs in its environment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from contextlib import suppress
from typing import Final

from penstock.core.errors import PenstockError
from penstock.core.reasons import reason
from penstock.core.units import SECOND
from penstock.net.address import join_host_port
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication.peer import address_of
from penstock.replication.state import ReplicationState

logger = logging.getLogger("penstock.replication")

SAID_MAX: Final = 64 * 1024
"""Bytes of its output that are read and logged."""
LINES_MAX: Final = 100
GONE_S: Final = 5.0
"""The time in which what is killed has ended."""
_EPOCH = re.compile(rb"^epoch=([0-9]{1,18})[ \t]*$", re.MULTILINE)


class HookError(PenstockError):
    """A hook that did not end with exit code 0."""


class Hooks:
    """The hooks of a node's options."""

    def __init__(self, options: NodeOptions, ports: Ports) -> None:
        self._options = options
        self._ports = ports

    async def before(self, state: ReplicationState, epoch: int, facts: dict[str, str]) -> int:
        """Ask whether this node may become primary in an epoch; the epoch, perhaps a higher one
        that the hook demands. Raises HookError if it refuses.
        """
        command = self._options.promote_before_hook
        if not command:
            return epoch
        environment = self._environment(state, epoch) | facts
        output = await self._run("--promote-before-hook", command, environment)
        demanded = _EPOCH.findall(output)
        # The last line counts; an epoch that is not higher would leave two primaries in one.
        return max(epoch, int(demanded[-1])) if demanded else epoch

    async def after(self, state: ReplicationState) -> None:
        """Tell that this node takes publishes; an error of the hook is logged."""
        command, environment = self._options.promote_after_hook, self._environment(state)
        try:
            await self._run("--promote-after-hook", command, environment)
        except HookError as error:
            logger.error("this node is primary in epoch %d, but %s", state.epoch, error)

    def _environment(self, state: ReplicationState, epoch: int | None = None) -> dict[str, str]:
        options, host = self._options, self._options.broadcast_address
        return {
            "PENSTOCK_EPOCH": str(state.epoch if epoch is None else epoch),
            "PENSTOCK_HISTORY": state.history,
            "PENSTOCK_NODE": host,
            "PENSTOCK_ADDRESS": address_of(options, self._ports),
            "PENSTOCK_TCP_ADDRESS": join_host_port(host, self._ports.broadcast_tcp),
            "PENSTOCK_OLD_PRIMARY": state.primary,
            "PENSTOCK_DATA_PATH": options.data_path or os.getcwd(),
        }

    async def _run(self, flag: str, command: str, environment: dict[str, str]) -> bytes:
        """The output of a command. Raises HookError."""
        try:
            hook = await asyncio.create_subprocess_shell(
                command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                # A process group for it alone: the shell's children must be killed, too.
                start_new_session=True,
                env={**os.environ, **environment},
            )
        except OSError as error:
            raise HookError(f"{flag} cannot be started: {reason(error)}") from error
        seconds = self._options.promote_hook_timeout / SECOND
        try:
            async with asyncio.timeout(seconds):
                output = await _output_of(hook)
                code = await hook.wait()
        except TimeoutError:
            raise HookError(f"{flag} did not end within {seconds:g} s, and was killed") from None
        finally:
            if hook.returncode is None:
                await _kill(hook)
        lines = output.decode("utf-8", "replace").splitlines()
        for line in lines[:LINES_MAX]:
            logger.info("%s: %s", flag, line)
        if code != 0:
            last = f": {lines[-1]}" if lines else ""
            raise HookError(f"{flag} ended with exit code {code}{last}")
        return output


async def _kill(hook: asyncio.subprocess.Process) -> None:
    """Kill a process with its group, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(hook.pid, signal.SIGKILL)
    with suppress(TimeoutError):  # one that has left its group may hold its output open
        async with asyncio.timeout(GONE_S):
            await hook.wait()


async def _output_of(hook: asyncio.subprocess.Process) -> bytes:
    """The beginning of what a process says; it is read to its end, so that the process can end."""
    assert hook.stdout is not None
    output = bytearray()
    while data := await hook.stdout.read(SAID_MAX):
        output += data[: SAID_MAX - len(output)]
    return bytes(output)
