"""Measures the latency and the memory of the server: ``python tests/server/measure_latency.py`` prints a table.

Times are those of an editor: from sending a message to receiving the diagnostics, over the real pipes. The table also
has libcst's time to parse the same text in the same minute, since machines differ and are busy.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import libcst as cst

sys.path.insert(0, str(Path(__file__).parent))

from editor import Editor, editor
from training_file import training_file

KEYSTROKES = 40
EDITS = 200
FILES = 300


def parse_seconds(text: str) -> float:
    """The median time of seven runs of libcst's parser."""
    return statistics.median(_seconds(lambda: cst.parse_module(text)) for _ in range(7))


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


async def first_diagnostics(folder: Path) -> float:
    """The time from the start of the process to the diagnostics of a small file."""
    begun = time.perf_counter()
    async with editor(folder) as vi:
        await vi.diagnostics(vi.open("small.py", "import torch\n\nx = torch.zeros(3)\nx.to('cuda')\n"))
        return time.perf_counter() - begun


async def keystroke(vi: Editor, uri: str) -> float:
    """The median time for keystrokes in a line in the middle of the last function."""
    waits = []
    await vi.diagnostics(uri)
    for number in range(KEYSTROKES):
        begun = time.perf_counter()
        old, new = ("sample", "sampled") if number % 2 == 0 else ("sampled", "sample")
        vi.replace(uri, f"    {old} = torch", f"    {new} = torch")
        await vi.diagnostics(uri)
        waits.append(time.perf_counter() - begun)
    return statistics.median(waits)


async def in_one_file(folder: Path, text: str) -> float:
    async with editor(folder) as vi:
        return await keystroke(vi, vi.open("train.py", text))


async def in_a_project(folder: Path, text: str) -> float:
    """The same time in a project of many files; the edited file imports a few of them."""
    for number in range(FILES - 1):
        (folder / f"part{number}.py").write_text(training_file(100).replace("Net(", f"Net{number}("))
    imports = "".join(f"from part{number} import Net{number}\n" for number in range(5))
    async with editor(folder) as vi:
        return await keystroke(vi, vi.open("train.py", imports + text))


async def memory(folder: Path, text: str) -> tuple[list[int], list[int]]:
    """The resident memory of the server and its worker, in MiB, after each tenth of many random edits."""
    rng = random.Random(1)
    server, worker = [], []
    async with editor(folder) as vi:
        uri = vi.open("train.py", text)
        await vi.diagnostics(uri)
        lines = [line for line in text.splitlines() if line.strip()]
        for number in range(EDITS):
            line = rng.choice(lines)
            vi.replace(uri, line, f"{line}  # {number}")
            await vi.diagnostics(uri)
            vi.replace(uri, f"{line}  # {number}", line)
            if number % (EDITS // 10) == EDITS // 10 - 1:
                await vi.diagnostics(uri)
                pid = vi.client._server.pid
                server.append(resident(pid))
                worker.append(resident(child_of(pid)))
    return server, worker


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024


def child_of(pid: int) -> int:
    return int(subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout.split()[0])


async def main() -> None:
    text = training_file(1000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = [await first_diagnostics(folder) for _ in range(3)]
        print(f"start to first diagnostics          {min(starts) * 1000:6.0f} ms (of {len(starts)})")
        parse = parse_seconds(text)
        wait = await in_one_file(folder, text)
        print(f"libcst's parse of {len(text.splitlines())} lines         {parse * 1000:6.0f} ms")
        print(f"keystroke to diagnostics            {wait * 1000:6.0f} ms, {wait / parse:.1f} × the parse")
        wait = await in_a_project(folder, text)
        print(f"the same among {FILES} files            {wait * 1000:6.0f} ms, {wait / parse:.1f} × the parse")
        server, worker = await memory(folder, training_file(150))
        print(f"memory over {EDITS} edits, MiB          server {server}, worker {worker}")


if __name__ == "__main__":
    asyncio.run(main())
