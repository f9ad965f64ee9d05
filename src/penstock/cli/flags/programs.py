"""The programs beside ``penstock``, and the flags of each, for help and completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.core.settings.options import Flags
from penstock.core.settings.options import Option as Declared

if TYPE_CHECKING:
    from penstock.rocketmq.mqadmin.posix_parser import Option as MqadminOption


class Flag(NamedTuple):
    """One flag as it is typed; ``value`` names what follows it, and is empty for a switch.

    ``letter`` is its short form with the dash, if it has one.
    """

    name: str
    value: str
    help: str
    letter: str = ""

    @property
    def shown(self) -> str:
        """The flag with the place of its value, as help prints it."""
        name = f"{self.letter}, {self.name}" if self.letter else self.name
        return f"{name}{self.joint}{self.value}" if self.value else name

    @property
    def joint(self) -> str:
        """The mark between the flag's name and its value."""
        return "=" if self.name.startswith("--") else " "


class Command(NamedTuple):
    """A command of a program that has several, with the flags of that command."""

    help: str
    flags: list[Flag]


def programs() -> dict[str, list[Flag]]:
    """The flags of every program that is installed with this package, those of NSQ's first.

    ``penstock`` and ``mqadmin`` have none but those of their sub-commands: ``penstock`` lists its
    own, and ``mqadmin`` has the others.
    """
    from penstock.cli.mqbroker import flags as mqbroker
    from penstock.cli.mqnamesrv import flags as mqnamesrv

    found = {name: _of_nsq(flags) for name, flags in nsq_programs().items()}
    for name, parser in (("mqbroker", mqbroker()), ("mqnamesrv", mqnamesrv())):
        found[name] = [Flag(*each) for each in parser.listed()]
    return found


def mqadmin() -> dict[str, Command]:
    """The sub-commands of ``mqadmin`` by name."""
    from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS

    return {
        each.name: Command(each.help, [_of_mqadmin(option) for option in each.options])
        for each in SUB_COMMANDS
    }


def nsq_programs() -> dict[str, type[Flags]]:
    """The declared flags of each program of NSQ: its daemons, then its tools."""
    from penstock.admin.admin_options import AdminOptions
    from penstock.nsq.nsqd.nsqd_options import NsqdOptions
    from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
    from penstock.nsq.tools.nsq_to_nsq.command_line import ToNsqdFlags
    from penstock.nsq.tools.stat import StatFlags
    from penstock.nsq.tools.tail import TailFlags
    from penstock.nsq.tools.to_file.command_line import ToFileFlags
    from penstock.nsq.tools.to_http.command_line import ToHttpFlags
    from penstock.nsq.tools.to_nsq.program import ToNsqFlags

    return {
        "nsqd": NsqdOptions,
        "nsqlookupd": LookupdOptions,
        "nsqadmin": AdminOptions,
        "nsq_stat": StatFlags,
        "nsq_tail": TailFlags,
        "nsq_to_file": ToFileFlags,
        "nsq_to_http": ToHttpFlags,
        "nsq_to_nsq": ToNsqdFlags,
        "to_nsq": ToNsqFlags,
    }


def _of_mqadmin(option: MqadminOption) -> Flag:
    value = "value" if option.takes_value else ""
    letter = option.letter and f"-{option.letter}"
    if " " in option.name:  # upstream's "print msg", which can only be given as -p
        return Flag(letter, value, option.help)
    return Flag(f"--{option.name}", value, option.help, letter)


def _of_nsq(flags: type[Flags]) -> list[Flag]:
    listed = [each for each in flags.declared.values() if not each.hidden]
    return [_flag(each) for each in sorted(listed, key=lambda each: each.flag)]


def _flag(declared: Declared) -> Flag:
    default = declared.kind.show_default(declared.initial())
    text = f"{declared.help} (default {default})" if default else declared.help
    return Flag(f"--{declared.flag}", declared.kind.placeholder, text)
