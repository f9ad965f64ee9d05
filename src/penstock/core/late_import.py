"""Modules that a program imports when it first uses them, or once it serves, whichever is sooner.

    import_late("numpy")    # first of all in main
    import numpy as np      # anywhere, later: as quick as a name
    np.zeros(3)             # imports it, if nothing did
    load_late()             # or this does, when there is time

For what takes long to import and a daemon's first answers do not need. The standard library's
``LazyLoader`` would execute a module at the next ``import`` of it, which asks for its ``__spec__``.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any, Final

_PATH: Final = "__path__"
_lock = RLock()
_late: dict[str, _Late] = {}


class _Late(ModuleType):
    """A module without its content. Whoever asks for a part of it, a submodule too, imports it;
    other threads that do so meanwhile wait.
    """

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if _late.pop(self.__name__, None) is not None:
                _execute(self)
        # As a module looks for it: while it is being executed, in this thread, that may fail.
        return ModuleType.__getattribute__(self, name)


def import_late(*names: str) -> None:
    """Have these modules imported when they are used; those that are there already stay."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = _Late(name)
            vars(module).update(vars(module_from_spec(spec)))
            vars(module).pop(_PATH, None)  # found by __getattr__: nobody imports a part of nothing
            sys.modules[name] = _late[name] = module


def load_late() -> None:
    """Import those that nobody has used yet."""
    for module in list(_late.values()):
        hasattr(module, _PATH)


def _execute(module: ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    try:
        spec.loader.exec_module(module)
    finally:
        module.__class__ = ModuleType
