"""The properties of RocketMQ's programs as tables, of the attributes and their docstrings."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from pathlib import Path

from penstock.core.settings import java_properties
from penstock.rocketmq.java_settings import JavaSettings

from .tables import code, table


def of_program(settings: type[JavaSettings]) -> str:
    """Every property of a program."""
    texts = documented(settings)
    rows = [
        [
            code(name),
            _default(settings, name, attribute),
            _at_start(settings, name) + texts[attribute],
        ]
        for name, attribute in settings.declared().items()
    ]
    return table(["property", "default", ""], rows)


def documented(settings: type[JavaSettings]) -> dict[str, str]:
    """The docstring of each attribute, as Markdown."""
    found: dict[str, str] = {}
    for each in settings.__mro__[:-1]:
        (body,) = [
            node.body
            for node in ast.parse(Path(inspect.getfile(each)).read_text(encoding="utf-8")).body
            if isinstance(node, ast.ClassDef) and node.name == each.__name__
        ]
        for attribute, following in pairwise(body):
            text = _docstring(following)
            if (
                text
                and isinstance(attribute, ast.AnnAssign)
                and isinstance(attribute.target, ast.Name)
            ):
                found.setdefault(attribute.target.id, text)
    return found


def _docstring(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split()).replace("``", "`")
    return ""


def _default(settings: type[JavaSettings], name: str, attribute: str) -> str:
    """The default, if it does not depend on the machine: then the text says it."""
    if not hasattr(settings, attribute):
        return ""
    shown = java_properties.dumps({name: getattr(settings, attribute)}).strip().partition("=")[2]
    return code(shown.replace(str(Path.home()), "~"))


def _at_start(settings: type[JavaSettings], name: str) -> str:
    """A mark of what is read at the start only, in a program that can change the rest."""
    return "*start*. " if hasattr(settings, "at_start_only") and name in settings.fixed else ""
