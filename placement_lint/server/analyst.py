"""The server's interface to the worker: one request at a time, urgent ones first, with a restart if the worker dies."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import Any

from placement_lint.server.analysis import Analyse, Analysis, Close, Draw, Locate, Mend, Placed, Request
from placement_lint.server.frames import packed, read
from placement_lint.server.launch import Process, launch

LIMIT = 60.0  # seconds per answer
START_LIMIT = 60.0
URGENT, PATIENT = 0, 1


class Lost(Exception):
    """The worker ended, or was ended, before it answered; the message has the reason."""


@dataclass(order=True)
class _Turn:
    """A request in the queue; of equal urgency the earlier comes first."""

    urgency: int
    number: int
    request: Request = field(compare=False)
    answer: asyncio.Future[Any] = field(compare=False)


class Analyst:
    """Starts in the event loop, and must be ended; ``process`` is a worker that was launched before."""

    def __init__(self, process: Process | None = None, limit: float = LIMIT) -> None:
        self.limit = limit
        self._process = process
        self._ready = False
        self._turns: asyncio.PriorityQueue[_Turn] = asyncio.PriorityQueue()
        self._numbers = itertools.count()
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._serving = asyncio.create_task(self._serve())

    async def analyse(self, request: Analyse, urgency: int = URGENT) -> Analysis:
        analysis: Analysis = await self._ask(request, urgency)
        return analysis

    async def locate(self, request: Locate) -> tuple[Placed, ...] | None:
        placed: tuple[Placed, ...] | None = await self._ask(request, URGENT)
        return placed

    async def mend(self, request: Mend) -> bytes:
        data: bytes = await self._ask(request, URGENT)
        return data

    async def draw(self, request: Draw) -> str:
        page: str = await self._ask(request, URGENT)
        return page

    async def close(self, path: str) -> None:
        await self._ask(Close(path), URGENT)

    def end(self) -> None:
        """End at once, even during a request."""
        if self._serving is not None:
            self._serving.cancel()
        self._kill()

    async def _ask(self, request: Request, urgency: int) -> Any:
        """The answer to a request; a request that is cancelled before its turn is skipped."""
        turn = _Turn(urgency, next(self._numbers), request, asyncio.get_running_loop().create_future())
        self._turns.put_nowait(turn)
        return await turn.answer

    async def _serve(self) -> None:
        with contextlib.suppress(Lost):  # the first request raises it again
            await self._started()
        while True:
            turn = await self._turns.get()
            if turn.answer.done():
                continue
            try:
                answer = await self._answered(turn.request)
            except Lost as error:
                answer = error
            if turn.answer.done():
                continue
            if isinstance(answer, Exception):
                turn.answer.set_exception(answer)
            else:
                turn.answer.set_result(answer)

    async def _answered(self, request: Request) -> Any:
        process = await self._started()
        assert process.stdin is not None
        try:
            with contextlib.suppress(OSError):  # a dead worker is handled when no answer arrives
                process.stdin.write(packed(request))
                process.stdin.flush()
            return await self._heard(process, self.limit)
        except BaseException:  # an unread answer would be taken for the next request's
            self._kill()
            raise

    async def _started(self) -> Process:
        self._process = self._process or launch()
        if not self._ready:
            try:
                await self._heard(self._process, START_LIMIT)
            except BaseException:
                self._kill()
                raise
            self._ready = True
        return self._process

    async def _heard(self, process: Process, limit: float) -> Any:
        assert process.stdout is not None
        try:
            return await asyncio.wait_for(asyncio.to_thread(read, process.stdout), limit)
        except asyncio.TimeoutError:
            raise Lost(f"the analysis had not ended after {limit:g} s") from None
        except EOFError:
            raise Lost(f"the process that analyses has died (exit status {process.wait()})") from None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process, self._ready = None, False
