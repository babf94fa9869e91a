"""Tracebacks that end in the user's line, without the frames of this package."""

from __future__ import annotations

import re
import traceback
import types
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .journal import is_user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

_HERE = str(Path(__file__).parent)
_FRAME = re.compile(r'  File "(.+)", line \d+, in ')
# The source lines of a frame, and the note that stands for repeated frames.
_PART_OF_FRAME = ("    ", "  [Previous line repeated")

Frame = TypeVar("Frame")


def up_to_the_user(frames: Sequence[Frame], path_of: Callable[[Frame], str]) -> list[Frame]:
    """The frames up to the user's last one, without those of the simulator; all others if none is the user's."""
    users = [index for index, frame in enumerate(frames) if is_user_code(path_of(frame))]
    last = users[-1] + 1 if users else len(frames)
    return [frame for frame in frames[:last] if not path_of(frame).startswith(_HERE)]


def shortened_copy(trace: TracebackType | None) -> TracebackType | None:
    """Another traceback over the same frames, shortened."""
    entries: list[TracebackType] = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    copy: TracebackType | None = None
    for entry in reversed(up_to_the_user(entries, lambda entry: entry.tb_frame.f_code.co_filename)):
        copy = types.TracebackType(copy, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return copy


def formatted(error: BaseException, begin: TracebackType | None) -> str:
    """The traceback as Python prints it, shortened; the exception stays as it is."""
    return shortened("".join(traceback.format_exception(type(error), error, begin)).rstrip())


def shortened(text: str) -> str:
    """Shorten each traceback in a text, those that `DataParallel` and `DataLoader` put into messages too."""
    return "\n".join(_shortened(text.splitlines()))


def _shortened(lines: list[str]) -> Iterator[str]:
    frames: list[list[str]] = []
    for line in lines:
        if _FRAME.match(line):
            frames.append([line])
        elif frames and line.startswith(_PART_OF_FRAME):
            frames[-1].append(line)
        else:
            yield from _lines_of(frames)
            frames = []
            yield line
    yield from _lines_of(frames)


def _lines_of(frames: list[list[str]]) -> Iterator[str]:
    for frame in up_to_the_user(frames, _path_of):
        yield from frame


def _path_of(frame: list[str]) -> str:
    found = _FRAME.match(frame[0])
    return found.group(1) if found else ""
