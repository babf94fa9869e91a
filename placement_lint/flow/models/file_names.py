"""Functions that make names of files, and those that give a file another name."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.domain import partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, Const, Symbol, Value, alternatives
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state import texts
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
        return texts.made(machine, partial_text.path(parts), texts.unknown(parts), f"{name}()", "")

    return machine.lift(made, *arguments.positional) if not arguments.spread else machine.fresh(f"{name}()")


def copy(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``shutil.copyfile("last.pth", "best.pth")``"""
    for _, source in alternatives(arguments.get(0, "src") or NONE):
        for _, target in alternatives(arguments.get(1, "dst") or NONE):
            machine.notes[FileNames].copied.append((partial_text.letters(source), partial_text.letters(target)))
    return machine.fresh(f"{name}()")


def stamp(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``time.strftime("%Y%m%d-%H%M%S")``, ``datetime.now()``: another one in each run."""
    return replace(machine.fresh(node), letters=partial_text.STAMP)


def gives_stamp(value: Symbol, method: str) -> bool:
    """Whether a method of a moment, or of its text, gives a text of it: ``datetime.now().isoformat()``."""
    return method in _METHODS_OF_STAMPS and value.letters == partial_text.STAMP


def stamp_of(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``time.strftime(form, moment)``: of the present moment, or of one that was long ago, as that of a file."""
    moment = arguments.get(1, "t") if name == "time.strftime" else arguments.get(0)
    if moment is None or (isinstance(moment, Symbol) and partial_text.is_of_this_run(moment.letters)):
        return stamp(machine, name, arguments, node)
    return machine.fresh(node)


_JOINING = (
    "os.path.join", "os.path.abspath", "os.path.expanduser", "os.path.normpath", "os.path.realpath", "os.fspath",
    "pathlib.Path", "pathlib.PurePath",
)  # fmt: skip
_COPYING = ("shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move", "os.rename", "os.replace", "os.link")

# What is different in each run, and texts of a moment, which is the present one if none is given.
_STAMPS = (
    "datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow", "tempfile.mkdtemp",
    "tempfile.mktemp", "uuid.uuid1", "uuid.uuid4",
)  # fmt: skip
_OF_MOMENT = ("time.asctime", "time.ctime", "time.gmtime", "time.localtime", "time.strftime")
_METHODS_OF_STAMPS = frozenset({"ctime", "isoformat", "replace", "strftime"})

CALLS: Handlers = {
    **dict.fromkeys(_JOINING, join),
    **dict.fromkeys(_COPYING, copy),
    **dict.fromkeys(_STAMPS, stamp),
    **dict.fromkeys(_OF_MOMENT, stamp_of),
}
