"""Run a whole script on simulated GPUs, the way ``python script.py`` would."""

from __future__ import annotations

import os
import runpy
import sys
from typing import TYPE_CHECKING

from . import report
from .distributed import simulate_launched
from .journal import Journal
from .patches import Patches
from .simulation import gpus as simulated

if TYPE_CHECKING:
    from types import TracebackType

FAILED = 1
INTERRUPTED = 130
# Modules that start one process a rank.
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")


def run_script(
    target: str,
    args: list[str],
    gpus: int,
    *,
    module: bool,
    trace: bool,
    journal: Journal | None = None,
    memory: int | None = None,
    device: str = "cuda",
) -> int:
    """Run `target` as ``__main__`` on `gpus` simulated GPUs of one kind; returns the exit status it would have had.

    A journal that is given holds the record of the run afterwards.
    """
    journal, patches = journal or Journal(), Patches()
    before = sys.argv, sys.path[:]
    sys.argv = [target, *args]
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(target)))
    try:
        with simulated(gpus, observer=journal, memory=memory, device=device) as machine:
            if target in LAUNCHERS:
                simulate_launched(patches)
            status = _run(target, module, journal)
            if trace:
                report.moves(journal)
            report.summary(journal, machine)
    finally:
        patches.undo()
        sys.argv, sys.path[:] = before
    return status


def _run(target: str, module: bool, journal: Journal) -> int:
    try:
        if module:
            variables = runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            variables = runpy.run_path(target, run_name="__main__")
    except SystemExit as ending:
        return _status(ending.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        begin = _own_part(error.__traceback__)
        report.failure(error, journal, begin)
        journal.failed(error, begin)
        return FAILED
    journal.finished(variables)
    return 0


def _status(code: object) -> int:
    """`sys.exit`: nothing is success, a number is itself, anything else is printed and a failure."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    report.say(str(code))
    return FAILED


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that only started the program."""
    starters = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in starters:
        trace = trace.tb_next
    return trace
