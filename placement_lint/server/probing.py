"""Proves findings on GPUs, real or simulated, in a separate process: PyTorch is never imported here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from placement_lint.errors import require_torch
from placement_lint.finding import Finding, Verdict
from placement_lint.probe.memory import Memory
from placement_lint.probe.prober import Prober
from placement_lint.probe.sandbox import Sandbox
from placement_lint.registry import find_rule

T = TypeVar("T")


class Probing:
    """Runs one probe at a time; all of them end when the server does."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._sandbox: Sandbox | None = None

    async def verdict(self, finding: Finding, mode: str) -> Verdict | None:
        """The verdict on the rule's pattern; None without an experiment, ``UsageError`` if it cannot run."""
        require_torch(mode)
        async with self._turn:
            return await _in_thread(lambda: self._carried_out(finding, mode))

    def end(self) -> None:
        """End the running probe; its result is lost."""
        if self._sandbox is not None:
            self._sandbox.__exit__(None, None, None)

    def _carried_out(self, finding: Finding, mode: str) -> Verdict | None:
        experiment = find_rule(finding.code).experiment
        if experiment is None:
            return None
        memory = Memory.of_user()
        with Sandbox() as self._sandbox:
            verdict = Prober(mode, self._sandbox, memory).verdict(experiment, dict(finding.facts))
        memory.save()
        return verdict


async def _in_thread(work: Callable[[], T]) -> T:
    """Like ``asyncio.to_thread``, in a thread that does not delay the end of the server."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)
