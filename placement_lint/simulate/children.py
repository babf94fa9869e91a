"""Python programs that a simulated program starts run on simulated GPUs too, as Lightning starts its ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from .machine import here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .patches import Patches

# Options of the interpreter that take the next argument.
_WITH_VALUE = ("-X", "-W")
# Modules that are no training programs; torch's launchers are.
_LEFT_ALONE = ("placement_lint", "pip", "torch._inductor", "triton")

_start = subprocess.Popen.__init__


def start(process: Any, args: Any, *rest: Any, **options: Any) -> None:
    if isinstance(args, (list, tuple)) and rest == () and options.get("executable") is None:
        args = simulated(args)
    _start(process, args, *rest, **options)


def simulated(command: Sequence[Any]) -> Sequence[Any]:
    """The command that runs the same script or module on simulated GPUs."""
    position = _target(command)
    if position is None:
        return command
    return [*command[:position], "-m", __package__, *options_of_the_machine(), *command[position:]]


def options_of_the_machine() -> list[str]:
    machine = here()
    return ["--device", machine.kind, "--gpus", str(machine.installed), "--memory", str(machine.memory)]


def _target(command: Sequence[Any]) -> int | None:
    """Where the script or ``-m module`` of a Python command begins."""
    if not command or not _is_this_python(os.fspath(command[0])):
        return None
    position = 1
    while position < len(command):
        word = os.fspath(command[position])
        if word == "-m":
            name = str(command[position + 1]) if position + 1 < len(command) else ""
            return None if name.startswith(_LEFT_ALONE) else position
        if not word.startswith("-"):
            return position
        if word.startswith("-c") or word == "-":
            return None
        position += 2 if word in _WITH_VALUE else 1
    return None


def _is_this_python(program: str) -> bool:
    found = shutil.which(program)
    return found is not None and os.path.realpath(found) == os.path.realpath(sys.executable)


def install(patches: Patches) -> None:
    patches.set(subprocess.Popen, "__init__", start)
