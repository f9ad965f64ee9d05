"""How a consumer shares the messages it wants in flight among its connections."""

from __future__ import annotations


def shares(max_in_flight: int, connections: int, first: int = 0) -> list[int]:
    """The RDY of each connection: even, and never more than ``max_in_flight`` in all.

    The remainder goes to connections from number ``first`` on. With more connections than messages
    some get nothing, so a caller moves ``first`` on from time to time.
    """
    if not connections:
        return []
    least, more = divmod(max_in_flight, connections)
    return [least + ((index - first) % connections < more) for index in range(connections)]
