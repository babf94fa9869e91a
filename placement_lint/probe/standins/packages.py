"""Stand-ins for packages that are not installed, and for names that installed ones do not have."""

from __future__ import annotations

import builtins
import collections.abc
import importlib
import importlib.machinery
import pkgutil
import sys
import types
from typing import Any

from placement_lint.probe.standins.sizes import used
from placement_lint.probe.standins.things import PARTS, StandIn

COMPILER = "torch.utils.cpp_extension"  # starts processes, which a slice may not
FORMER = {  # what libraries have under another name by now, or only Python has
    **{f"numpy.{name}": f"builtins.{name}" for name in ("bool", "int", "float", "complex", "object", "str")},
    "numpy.long": "builtins.int", "numpy.Inf": "math.inf", "numpy.NaN": "math.nan", "numpy.float_": "numpy.float64",
    **{f"collections.{name}": f"collections.abc.{name}" for name in collections.abc.__all__},
    "torch._utils._accumulate": "itertools.accumulate", "torch._six.inf": "math.inf", "torch._six.nan": "math.nan",
    "inspect.getargspec": "inspect.getfullargspec", "time.clock": "time.perf_counter", "fractions.gcd": "math.gcd",
}  # fmt: skip


class Package(types.ModuleType):
    __version__ = "999.0"

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        module: Any = types.ModuleType
        return Names(self, module.__dict__["__dict__"].__get__(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"
        setattr(self, name, importlib.import_module(whole) if name in PARTS else StandIn(whole))
        return getattr(self, name)


class Names(dict):  # type: ignore[type-arg]
    """The names of a package, in which each that is looked up is found."""

    def __init__(self, package: Any, known: Any) -> None:
        super().__init__(known)
        self.package = package

    def __missing__(self, name: str) -> Any:
        return getattr(self.package, name)


class Finder:
    """Finds packages, in the place of those that are installed, and not of those in folders that a program adds."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.folders = {*sys.path}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not any(name == package or name.startswith(f"{package}.") for package in self.packages):
            return None
        added = [folder for folder in sys.path if folder not in self.folders]
        if importlib.machinery.PathFinder.find_spec(name.partition(".")[0], added) is not None:
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return Package(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


class Adder:
    """Adds missing names to modules when these are imported."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}

    def add(self, module: str, name: str) -> None:
        if module in sys.modules:
            self._set(sys.modules[module], name)
        self.names.setdefault(module, []).append(name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path) if name in self.names else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            for one in self.names[name]:
                self._set(module, one)

        spec.loader.exec_module = executed
        return spec

    @staticmethod
    def _set(module: Any, name: str) -> None:
        former = FORMER.get(f"{module.__name__}.{name}")
        value = pkgutil.resolve_name(former) if former else StandIn(f"{module.__name__}.{name}")
        setattr(module, name, value)


def importing(plain: Any) -> Any:
    """``__import__`` that takes what no package is around for from the program's folder."""

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        try:
            return plain(name, globals, locals, fromlist, level)
        except ImportError as error:
            if not level or not str(error).startswith("attempted relative import"):
                raise
            used.add(f"{'.' * level}{name}")
        if name:
            return plain(name, globals, locals, fromlist, 0)
        return types.SimpleNamespace(**{one: plain(one, globals, locals) for one in fromlist})

    return imported


def real(name: str) -> Any:
    """A package that is installed and has no stand-in, else None."""
    try:
        package = importlib.import_module(name)
    except ImportError:
        return None
    return None if isinstance(package, Package) else package


def install_packages(packages: tuple[str, ...]) -> None:
    finder: Any = Finder((*packages, COMPILER))
    sys.modules.pop(COMPILER, None)
    adder: Any = Adder()
    sys.meta_path[:0] = [finder, adder]
    for package in packages:
        module, colon, name = package.partition(":")
        if colon:
            adder.add(module, name)
    builtins.__import__ = importing(builtins.__import__)
    for name in ("get_ipython", "display"):
        setattr(builtins, name, getattr(builtins, name, StandIn(name)))
