"""One declaration per option: its flag, its TOML key, its default and its help text.

    class NsqdOptions(Options):
        tcp_address: str = option("0.0.0.0:4150", "address to listen on for TCP clients")
        msg_timeout: int = option(MINUTE, "time until …", kind=DURATION)
        lookupd_tcp_addresses: tuple[str, ...] = option(
            (), "…", flag="lookupd-tcp-address", key="nsqlookupd_tcp_addresses"
        )

    options = load(NsqdOptions, sys.argv[1:], "nsqd", version_line("nsqd"))

A flag wins over the configuration file (``--config``, TOML), the file wins over the default. Flags,
texts and exit codes are those of the Go programs. TOML is only imported when a file is named, so
that ``--version`` stays quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self, TypeVar

from penstock.core.nearest import did_you_mean
from penstock.core.redaction import without_secrets
from penstock.core.settings.flags import FlagError, HelpRequested, parse_words
from penstock.core.settings.option_kinds import (
    BOOL,
    LOG_FORMAT,
    STRING,
    FatalFlagError,
    Kind,
    kind_of,
)

FlagsT = TypeVar("FlagsT", bound="Flags")
OptionsT = TypeVar("OptionsT", bound="Options")


class Option:
    """One option; ``name`` is the attribute it became."""

    __slots__ = ("default", "factory", "flag", "help", "hidden", "key", "kind", "name")

    def __init__(
        self,
        default: Any,
        help: str,
        flag: str,
        key: str,
        kind: Kind | None,
        factory: Callable[[], Any] | None,
        hidden: bool,
    ) -> None:
        self.name = ""
        self.default = default
        self.help = help
        self.flag = flag
        self.key = key
        self.factory = factory
        self.kind = kind or kind_of(factory() if factory else default)
        self.hidden = hidden

    def initial(self) -> Any:
        """The value when neither flag nor file gives one."""
        return self.factory() if self.factory else self.default


def option(
    default: Any = None,
    help: str = "",
    *,
    flag: str = "",
    key: str = "",
    kind: Kind | None = None,
    factory: Callable[[], Any] | None = None,
    hidden: bool = False,
) -> Any:
    """Declare an option in the body of an ``Options`` class.

    The flag defaults to the attribute's name with dashes, the TOML key to the flag with
    underscores, the kind to what the default's type says. ``factory`` makes a default when asked (a
    host name). A hidden option works, unlisted.
    """
    return Option(default, help, flag, key, kind, factory, hidden)


class Flags:
    """Options of a program without a configuration file: see ``parse`` and ``Options``."""

    declared: Mapping[str, Option] = {}
    arguments: tuple[str, ...] = ()
    """The words after the flags."""

    version: bool = option(default=False, help="print the version and exit")

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - self.declared.keys()
        if unknown:
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        for name, declared in self.declared.items():
            setattr(self, name, values[name] if name in values else declared.initial())

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _declare(cls)

    def replace(self, **values: Any) -> Self:
        """A copy with some options changed."""
        kept = {name: getattr(self, name) for name in self.declared}
        changed = type(self)(**{**kept, **values})
        changed.arguments = self.arguments
        return changed

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({without_secrets(shown)})"


def _declare(cls: type[Flags]) -> None:
    """Name the options found in a class body and gather them with the inherited ones."""
    declared = dict(cls.declared)
    for name, value in list(vars(cls).items()):
        if isinstance(value, Option):
            value.name = name
            value.flag = value.flag or name.replace("_", "-")
            value.key = value.key or value.flag.replace("-", "_")
            declared[name] = value
            delattr(cls, name)
    cls.declared = declared


_declare(Flags)


class Options(Flags):
    """Base of every daemon's options; made from keywords, or from a command line by ``load``."""

    config: str = option(default="", help="path to a TOML configuration file")
    log_format: str = option(
        "text", "lines of the log: text, as NSQ's, or json, an object each", kind=LOG_FORMAT
    )


def parse(flags_class: type[FlagsT], argv: Sequence[str], program: str) -> FlagsT:
    """The flags of a command line and its ``arguments``; leaves the program as Go's would.

    SystemExit: 0 after help, 2 after a wrong flag (text and usage on stderr).
    """
    given, arguments = _given(flags_class, argv, program)
    parsed = flags_class(**given)
    parsed.arguments = arguments
    return parsed


def load(
    options_class: type[OptionsT], argv: Sequence[str], program: str, version_line: str = ""
) -> OptionsT:
    """The options of a command line; leaves the program as Go's would.

    SystemExit: 0 after help or version, 2 after a wrong flag (text and usage on stderr), 1 after
    an unusable file.
    """
    values, unread = _given(options_class, argv, program)
    if values.get("version"):
        print(version_line or program)
        raise SystemExit(0)
    if unread:
        _warn_of_words(unread, program)
    if values.get("config"):
        table = _read_table(values["config"], program)
        _warn_of_unknown_keys(options_class, table, program, values["config"])
        values = {**_config_values(options_class, table, program, frozenset(values)), **values}
    return options_class(**values)


def _given(
    flags_class: type[Flags], argv: Sequence[str], program: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values that ``argv`` gives, by the attributes' names, and the words after the flags."""
    declared = {each.flag: each for each in flags_class.declared.values()}
    try:
        given, arguments = parse_words(argv, {flag: each.kind for flag, each in declared.items()})
    except HelpRequested:
        print(usage(flags_class, program), file=sys.stderr)
        raise SystemExit(0) from None
    except FlagError as error:
        # Go's first line is far above once the usage has gone by, so the last says it again.
        explained = f"{program.rpartition('/')[2]}: {error}{error.remedy}"
        print(error, usage(flags_class, program), explained, sep="\n", file=sys.stderr)
        raise SystemExit(2) from None
    except FatalFlagError as error:
        _die(str(error))
    return {declared[flag].name: value for flag, value in given.items()}, arguments


def usage(options_class: type[Flags], program: str) -> str:
    """The usage text: every flag in alphabetical order, laid out as Go does."""
    lines = [f"Usage of {program}:"]
    listed = [each for each in options_class.declared.values() if not each.hidden]
    for each in sorted(listed, key=lambda each: each.flag):
        placeholder = each.kind.placeholder
        lines.append(f"  -{each.flag} {placeholder}" if placeholder else f"  -{each.flag}")
        shown = each.kind.show_default(each.initial())
        lines.append(f"    \t{each.help} (default {shown})" if shown else f"    \t{each.help}")
    return "\n".join(lines)


def _read_table(path: str, program: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.loads(file.read().decode("utf-8-sig"))  # Go's parser skips a BOM, too
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        reason = f"{verb} {path}: {(error.strerror or str(error)).lower()}"
    except tomllib.TOMLDecodeError as error:
        reason = f"toml: {error}"
    except UnicodeDecodeError:
        reason = "toml: it is not UTF-8 text"
    _die_as(program, f"failed to load config file {path} - {reason}")


def _warn_of_words(words: Sequence[str], program: str) -> None:
    """Log the words at which the reading of flags has ended: Go's programs start without one, and
    without the flags behind it.
    """
    from penstock.core.logs import warn

    shown = without_secrets(" ".join(words))
    warn(
        f"[{program}] ",
        f"no flag, so this and all behind it has no effect: {shown} (a switch is "
        "given as -name or -name=false)",
    )


def _warn_of_unknown_keys(
    options_class: type[Options], table: dict[str, Any], program: str, path: str
) -> None:
    """Log the keys that no option has: Go's programs start without a word on their defaults."""
    from penstock.core.logs import warn

    known = {each.key for each in options_class.declared.values()}
    for key in sorted(table.keys() - known):
        hint = did_you_mean(key, known)
        warn(f"[{program}] ", f"{path}: the key {key} is unknown and has no effect{hint}")


def _config_values(
    options_class: type[Options], table: dict[str, Any], program: str, given: frozenset[str]
) -> dict[str, Any]:
    """The values a configuration file sets; unknown keys and flags already given are skipped."""
    known = [each for each in options_class.declared.values() if each.key in table]
    values = {}
    # NSQ checks the choices first, even where a flag overrides them.
    for each in sorted(known, key=lambda each: not each.kind.is_choice):
        value = table[each.key]
        if each.name in given and not each.kind.is_choice:
            continue
        try:
            values[each.name] = each.kind.from_config(value)
        except ValueError as error:
            if each.kind.is_choice:
                _die_as(program, f"failed parsing {each.key} {_shown(value)}")
            _die(
                f"ERROR: Resolve failed to coerce value {without_secrets(_shown(value))}"
                f" ({each.kind.show(each.initial())}) for field {_field(each.key)} - {error}"
                + (f"; give {each.key} {each.kind.form}" if each.kind.form else "")
            )
    return values


def _shown(value: Any) -> str:
    """A TOML value as Go's ``%v`` prints it."""
    if isinstance(value, list):
        return "[" + " ".join(map(_shown, value)) + "]"
    return BOOL.show(value) if isinstance(value, bool) else STRING.show(value)


_ACRONYMS = {"tcp", "http", "https", "tls", "id", "e2e", "udp", "ca"}
_FIELDS = {
    "deflate": "DeflateEnabled",
    "snappy": "SnappyEnabled",
    "nsqlookupd_tcp_addresses": "NSQLookupdTCPAddresses",
}
"""Keys that Go's programs call otherwise."""


def _field(key: str) -> str:
    """A key as Go's field: msg_timeout is MsgTimeout, tcp_address is TCPAddress."""
    words = key.split("_")
    spelled = [word.upper() if word in _ACRONYMS else word.capitalize() for word in words]
    return _FIELDS.get(key) or "".join(spelled)


def _die(text: str) -> NoReturn:
    """Go's bare log line: the time, the text, exit code 1."""
    from penstock.core.logs import bare_line

    print(bare_line(text), file=sys.stderr)
    raise SystemExit(1)


def _die_as(program: str, text: str) -> NoReturn:
    from penstock.core.logs import die

    die(f"[{program}] ", text)
