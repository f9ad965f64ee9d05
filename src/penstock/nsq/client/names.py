"""The check of names before they are sent.

A name with a space in it would reach the server as another name and one more parameter, and a bad
name ends the connection with everything else under way on it. So the refusal comes from here, as
the exception the server's answer would have been.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.names import is_valid_name
from penstock.core.quote import quote
from penstock.net.address import split_host_port
from penstock.nsq.client.errors import BadChannel, BadTopic


def checked_topic(name: str, command: str) -> str:
    """The name if it can be a topic's. Raises BadTopic as for ``command``; TypeError."""
    if not is_valid_name(_text(name, "topic name")):
        raise BadTopic(f"E_BAD_TOPIC {command} topic name {quote(name)} is not valid")
    return name


def checked_channel(name: str) -> str:
    """The name if it can be a channel's. Raises BadChannel; TypeError."""
    if not is_valid_name(_text(name, "channel name")):
        raise BadChannel(f"E_BAD_CHANNEL SUB channel name {quote(name)} is not valid")
    return name


def checked_addresses(addresses: Iterable[str]) -> list[str]:
    """The addresses, each of them host:port. Raises ValueError; TypeError."""
    listed = listed_addresses(addresses)
    for address in listed:
        split_host_port(address)
    return listed


def listed_addresses(addresses: Iterable[str]) -> list[str]:
    """The addresses; a text would count as a list of characters. Raises TypeError."""
    if isinstance(addresses, str):
        raise TypeError(f"addresses are given as a list: [{addresses!r}]")
    return [_text(address, "address") for address in addresses]


def _text(value: str, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} is not a str")
    return value
