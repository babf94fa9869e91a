"""Draw the terminal output of ``placement-lint check`` on the example project as an SVG.

``python docs/picture.py`` writes ``docs/images/check.svg``. The program runs in a pseudo-terminal, so the picture shows
the colours and line breaks that a user sees.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "fixtures" / "example"
PICTURE = ROOT / "docs" / "images" / "check.svg"
COMMAND = "placement-lint check"
WANT = re.compile(r"  # want: .*")

COLUMNS, CHARACTER, LINE, MARGIN, BAR = 84, 8.4, 19, 18, 34
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
FOREGROUND, BACKGROUND, FRAME = "#d5dae3", "#171b22", "#2c333f"
RED, GREEN, YELLOW, BLUE, CYAN = 1, 2, 3, 4, 6  # as terminals number them
COLOURS = {RED: "#ff7b72", GREEN: "#7ee787", YELLOW: "#e3b341", BLUE: "#79c0ff", CYAN: "#76d9e6"}


def copy_example(folder: Path) -> None:
    """Write the example project to a folder, without the comments for the tests."""
    for file in sorted(EXAMPLE.glob("*.py")):
        (folder / file.name).write_text(WANT.sub("", file.read_text(encoding="utf-8")), encoding="utf-8")


def terminal_output(folder: Path) -> str:
    """What the command writes to a terminal, with its control sequences."""
    terminal, writing_end = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", *COMMAND.replace("-", "_", 1).split()]
    running = subprocess.Popen(command, cwd=folder, env=environment, stdout=writing_end, stderr=subprocess.DEVNULL)
    os.close(writing_end)
    written = bytearray()
    while part := _read(terminal):
        written += part
    running.wait()
    os.close(terminal)
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports the end of a pseudo-terminal as an error
        return b""


def as_svg(output: str) -> str:
    prompt = Text.assemble(("$ ", "color(2)"), (COMMAND, "bold"))
    lines = [prompt, Text(), *Text.from_ansi(output.rstrip("\n")).split("\n")]
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = BAR + len(lines) * LINE + MARGIN
    rows = [_row(line, BAR + (number + 1) * LINE - 5) for number, line in enumerate(lines)]
    dots = [
        f'<circle cx="{MARGIN + 4 + 18 * number}" cy="17" r="5.5" fill="{COLOURS[colour]}"/>'
        for number, colour in enumerate((RED, YELLOW, GREEN))
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>The output of {COMMAND} on the example project</title>",
            f'<rect width="{width}" height="{height}" rx="9" fill="{BACKGROUND}" stroke="{FRAME}"/>',
            *dots,
            f'<g font-family="{FONTS}" font-size="14" fill="{FOREGROUND}" style="white-space:pre">',
            *(row for row in rows if row),
            "</g>",
            "</svg>",
            "",
        )
    )


def _row(line: Text, height: int) -> str:
    """One line of text; every run of one style is fitted to the grid of a terminal."""
    console = Console(width=COLUMNS, color_system="standard", force_terminal=True)
    runs, column = [], 0
    for padded, style, _ in line.render(console):
        text = padded.strip()
        if text:
            left = MARGIN + (column + padded.index(text)) * CHARACTER
            place = f'x="{left:g}" textLength="{len(text) * CHARACTER:g}"'
            look = ""
            if style is not None and style.bold:
                look += ' font-weight="bold"'
            if style is not None and style.dim:
                look += ' fill-opacity="0.6"'
            if style is not None and style.color is not None:
                look += f' fill="{COLOURS[style.color.number or 0]}"'
            runs.append(f'<tspan {place} lengthAdjust="spacingAndGlyphs"{look}>{escape(text)}</tspan>')
        column += len(padded)
    return f'<text y="{height}">{"".join(runs)}</text>' if runs else ""


def draw() -> str:
    with tempfile.TemporaryDirectory() as name:
        copy_example(Path(name))
        return as_svg(terminal_output(Path(name)))


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
