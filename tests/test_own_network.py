"""Nobody but itself is met on the loopback of a process that has a network of its own."""

from __future__ import annotations

import socket
import subprocess
import sys

TRY = """
import socket, sys
from tests.own_network import enter_own_network, network_outside
mine = enter_own_network()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname())
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    print("not alone" if mine else "not allowed")
except ConnectionRefusedError:
    print("alone")
with network_outside():
    socket.create_connection(("127.0.0.1", int(sys.argv[1])))
"""


def test_a_server_of_another_process_is_there_only_outside() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", TRY, port]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("alone", "not allowed")
