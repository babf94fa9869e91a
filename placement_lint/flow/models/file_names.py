"""Functions that make names of files, and those that give a file another name."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, Const, Value, alternatives
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.notes import Notes, Use, noted


@dataclass
class FileNames(Notes):
    """The files that a program copies or renames: the letters of the names before and after."""

    copied: list[tuple[str, str]] = noted(list, Use.AT_END)


def join(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``os.path.join(folder, "best.pth")``, ``Path(folder, "best.pth")``"""

    def made(*parts: Value) -> Value:
        if parts and name == "os.path.join" and all(isinstance(part, Const) for part in parts):
            return Const(partial_text.path(parts))
        return replace(machine.fresh(f"{name}()"), letters=partial_text.path(parts))

    return machine.lift(made, *arguments.positional) if not arguments.spread else machine.fresh(f"{name}()")


def copy(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``shutil.copyfile("last.pth", "best.pth")``"""
    for _, source in alternatives(arguments.get(0, "src") or NONE):
        for _, target in alternatives(arguments.get(1, "dst") or NONE):
            machine.notes[FileNames].copied.append((partial_text.letters(source), partial_text.letters(target)))
    return machine.fresh(f"{name}()")


_JOINING = (
    "os.path.join", "os.path.abspath", "os.path.expanduser", "os.path.normpath", "os.path.realpath", "os.fspath",
    "pathlib.Path", "pathlib.PurePath",
)  # fmt: skip
_COPYING = ("shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move", "os.rename", "os.replace", "os.link")

CALLS: Handlers = {**dict.fromkeys(_JOINING, join), **dict.fromkeys(_COPYING, copy)}
