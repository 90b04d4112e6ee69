"""Stand-ins for packages that a trainer imports and its advantage function does not use."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class _AnyClass(type):
    """The type of a stand-in for a class: it has every attribute, and may be subscripted."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __or__(cls, _: Any) -> Any:
        return cls

    def __ror__(cls, _: Any) -> Any:
        return cls


def _stand_in(name: str) -> Any:
    """A class that may be a base class, an annotation, or a decorator without arguments."""

    def new(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        decorates = len(arguments) == 1 and callable(arguments[0]) and not keywords
        return arguments[0] if decorates else object.__new__(cls)

    return _AnyClass(name, (), {"__new__": new, "__init__": lambda self, *a, **k: None})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the named modules and all modules in them before any installed ones."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        for name in self.names:
            if fullname == name or fullname.startswith(f"{name}."):
                return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = ModuleType(spec.name)
        vars(module)["__getattr__"] = _attribute
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def _attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _stand_in(name)


def install(names: Sequence[str]) -> None:
    """Put stand-ins in the place of modules, such as `sglang` or `nemo_rl.models.policy`."""
    sys.meta_path.insert(0, _Finder(names))
