"""How a saved slice carries the modules of a project that it imports: the source of ``Embedded`` is copied into it."""

from __future__ import annotations

from typing import Any


class Embedded:
    """A module whose source is a string in this file. Its lines are lines of this file in tracebacks."""

    def __init__(self, name: str, source: str, is_package: bool = False) -> None:
        import sys

        caller: Any = sys._getframe(1)
        self.name, self.source, self.is_package = name, source, is_package
        self.file, self.first = caller.f_code.co_filename, caller.f_lineno
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        import importlib.machinery

        if name != self.name:
            return None
        loader: Any = self
        spec = importlib.machinery.ModuleSpec(name, loader, origin=self.file, is_package=self.is_package)
        spec.has_location = True
        return spec

    def create_module(self, spec: Any) -> Any:
        return None

    def exec_module(self, module: Any) -> None:
        above = "\n" * (self.first - 1)
        exec(compile(above + self.source, self.file, "exec", dont_inherit=True), module.__dict__)
