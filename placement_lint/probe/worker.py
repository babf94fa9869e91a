"""The process that runs arms: ``python -m placement_lint.probe.worker``, one JSON object a line in and out.

It imports PyTorch once and serves one request after another until its input ends. Each arm runs in a folder of its
own, and its output goes nowhere.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from importlib import import_module
from typing import Any, TextIO

import torch

from placement_lint.probe import confinement, stage
from placement_lint.probe.experiment import Arm, OutOfReach
from placement_lint.probe.verdicts import HOLLOWED
from placement_lint.simulate import NotSimulated, gpus
from placement_lint.simulate.machine import Machine
from placement_lint.simulate.simulation import rehearse

SPARE_MEMORY = 4 * 2**30  # bytes that the arms may take beyond what PyTorch itself does
GRACE = 5.0  # seconds after which a process ends itself if no other has ended it
UNABLE = (NotSimulated, ImportError, torch.cuda.OutOfMemoryError)
START_LIMIT = 120.0  # seconds to look for GPUs
NO_MEMORY = "can't allocate memory"  # in the RuntimeError of PyTorch's CPU allocator


def serve(requests: TextIO, answers: TextIO) -> None:
    # CUDA is not started for the greeting: a process that has started it cannot be copied.
    found = stage.apart(START_LIMIT, lambda: {"gpus": _real_gpus()})
    # A driver that does not start is as good as none.
    _say(answers, {"torch": str(torch.__version__), "gpus": found.get("gpus", [])})
    for line in requests:
        request = json.loads(line)
        if "script" in request:
            _say(answers, _play(request))
        elif request["simulate"] is None and hasattr(os, "fork"):
            _let_a_copy_answer(request, answers)
        else:
            _say(answers, _answered(request))


def _let_a_copy_answer(request: dict[str, Any], answers: TextIO) -> None:
    """So that a failed kernel, the present device and the visible ones do not outlive an arm on real GPUs.

    If the copy comes to a bad end, so does this process.
    """
    copy = os.fork()
    if copy == 0:
        _say(answers, _answered(request))
        os._exit(0)
    _, status = os.waitpid(copy, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    elif code > 0:
        os._exit(code)


def _answered(request: dict[str, Any]) -> dict[str, Any]:
    # A watch is not kept over a script: its thread would be missing in the copy of the process.
    faulthandler.dump_traceback_later(request["limit"] + GRACE, exit=True)
    try:
        return _answer(request)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        arm = _find(request["arm"])
        with _own_folder(), _on(request), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            return {"saw": arm(request["facts"])}
    except OutOfReach as error:
        return {"unable": str(error)}
    except MemoryError:
        return {"unable": "out of memory"}
    except UNABLE as error:
        return {"unable": f"{type(error).__name__}: {error}"}
    except Exception as error:
        if NO_MEMORY in str(error):
            return {"unable": "out of memory"}
        return {"raised": [cls.__name__ for cls in type(error).__mro__], "message": str(error)}


def _play(request: dict[str, Any]) -> dict[str, Any]:
    script = request["script"]
    ranks, nodes = script["ranks"], script["nodes"]
    if request["simulate"] is not None:
        rehearse()

    def play(script_played: stage.Play, part: stage.Part) -> dict[str, Any]:
        if script_played.confined:
            confinement.join()
        with _on(request) as machine:
            # Ranks that drew the same numbers would agree on gradients that were never averaged.
            torch.manual_seed(part.rank)
            answer = stage.played(script_played, part)
        if machine is not None and machine.is_hollowed:
            answer["stood_in"] = [*answer["stood_in"], HOLLOWED]
        return answer

    with _own_folder() as folder:
        told = {field.name: script[field.name] for field in fields(stage.Play) if field.name in script}
        played = stage.Play(**told, folder=folder, confined=request["confined"])
        plays = [partial(play, played, stage.Part(rank, ranks, nodes)) for rank in range(ranks)]
        if not played.confined:
            return stage.apart(script["limit"], *plays)
        view = confinement.View(
            work=folder,
            roots=tuple(played.roots),
            folders=confinement.folders_named(played.text, played.entry),
            here=request["here"],
            gpus=request["simulate"] is None,
        )
        limit = script["limit"]
        try:
            return confinement.confined(view, limit, lambda watch: stage.apart(limit, *plays, strain=watch.strain))
        except confinement.Missing as reason:
            return {"unable": f"it cannot be confined, which needs {reason}"}


def _find(name: str) -> Arm:
    module, _, function = name.partition(":")
    arm: Arm = getattr(import_module(module), function)
    return arm


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory(dir=before) as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def _on(request: dict[str, Any]) -> contextlib.AbstractContextManager[Machine | None]:
    count, hollow = request["simulate"], request.get("hollow", False)
    return contextlib.nullcontext() if count is None else gpus(count, device=request["kind"], hollow=hollow)


def _real_gpus() -> list[str]:
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _limit_memory() -> None:
    """Where the system can: an address space not much larger than now. CUDA reserves more than any such limit."""
    try:
        import resource
        from pathlib import Path

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + SPARE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        pass


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        _limit_memory()
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
