"""The configuration of RocketMQ's programs: properties under Java's names, from file or by command.

A program declares a frozen set of properties as annotated class attributes; ``listen_port`` is the
property ``listenPort``. What stays the same in our program whatever its value, such as the size of
a thread pool, is listed in ``without_effect`` and accepted in silence; any other name is reported.
"""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any, ClassVar, Self

from penstock.core.errors import ConfigError
from penstock.core.nearest import did_you_mean
from penstock.core.settings import java_properties

logger = logging.getLogger("penstock.rocketmq.java_settings")

_HUMP = re.compile(r"_([a-z0-9])")


def java_name(name: str) -> str:
    """``listen_port`` as ``listenPort``; digits join without a hump: ``broker_ip1``."""
    return _HUMP.sub(lambda found: found[1].upper(), name)


class JavaSettings:
    """Base of a program's properties: ints, booleans and texts."""

    without_effect: ClassVar[frozenset[str]] = frozenset()
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Java's names of properties that no command may change, whatever ``configBlackList`` says."""
    java_names: ClassVar[dict[str, str]] = {}
    """Names that the rule of ``java_name`` does not give: attribute by property."""

    @classmethod
    def declared(cls) -> dict[str, str]:
        """Attribute by property, in the order of declaration, the class before its bases."""
        odd = {attribute: name for name, attribute in cls.java_names.items()}
        names: dict[str, str] = {}
        for base in cls.__mro__:
            for attribute, kind in inspect.get_annotations(base).items():
                if not str(kind).startswith("ClassVar"):
                    names[odd.get(attribute) or java_name(attribute)] = attribute
        return names

    @classmethod
    def load(cls, text: str) -> tuple[Self, list[str]]:
        """Settings from a file's text, and the properties in it that we do not know.

        Raises ConfigError for a value that cannot be read.
        """
        settings = cls()
        return settings, settings.update(java_properties.loads(text))

    @classmethod
    def load_file(cls, path: str | None) -> Self:
        """Settings from a file, or the defaults; what is unknown in it is logged.

        Raises ConfigError.
        """
        if path is None:
            return cls()
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            settings, unknown = cls.load(text)
        except OSError as error:
            raise ConfigError(f"failed to load {path} - {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"failed to load {path} - it is not UTF-8 text") from error
        except ConfigError as error:
            raise ConfigError(f"failed to load {path} - {error}") from error
        for name in unknown:
            hint = did_you_mean(name, settings.declared())
            logger.warning("%s: the property %s is unknown and has no effect%s", path, name, hint)
        if unknown and len(unknown) == len(java_properties.loads(text)):  # Java's starts as well
            logger.warning(
                "%s sets nothing that this program knows, so all properties have their "
                "defaults: name the right file with -c",
                path,
            )
        return settings

    def update(self, values: dict[str, str]) -> list[str]:
        """Take over these properties, all or none; the unknown ones are returned.

        Raises ConfigError.
        """
        declared = self.declared()
        parsed = {
            declared[name]: _parsed(name, value.strip(), getattr(self, declared[name]))
            for name, value in values.items()
            if name in declared
        }
        for attribute, value in parsed.items():
            setattr(self, attribute, value)
        return [n for n in values if n not in declared and n not in self.without_effect]

    def black_list(self) -> set[str]:
        """Names that the operator lets no command change, where a program has such a property."""
        words: str = getattr(self, "config_black_list", "")
        return {name.strip() for name in words.split(";") if name.strip()}

    def fixed_names(self) -> set[str]:
        """Names that no command may change: those that the operator lists, and always some."""
        return {*self.fixed, *self.black_list()}

    def as_text(self) -> str:
        """All properties as lines ``name=value``."""
        return java_properties.dumps({n: getattr(self, a) for n, a in self.declared().items()})


def _parsed(name: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} must be true or false, not {value!r}")
        return value.lower() == "true"
    if isinstance(default, int):
        try:
            return int(value)
        except ValueError:
            raise ConfigError(f"{name} must be a number, not {value!r}") from None
    if "\0" in value:
        raise ConfigError(f"{name} must hold no NUL character, as {value!r} does")
    return value
