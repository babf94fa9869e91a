"""Stand-ins for files and folders that do not exist."""

from __future__ import annotations

import builtins
import codecs
import collections
import functools
import glob
import io
import json
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import model_zoo

from placement_lint.probe.standins.callers import LIBRARIES, ends_program
from placement_lint.probe.standins.packages import real
from placement_lint.probe.standins.sizes import COUNT, LENGTH, TEXT, WIDTH, used
from placement_lint.probe.standins.texts import ByteFile, Named, TextFile
from placement_lint.probe.standins.things import StandIn

READERS = {  # of packages that may be installed, what takes the path of a file
    "numpy": ("load", "loadtxt", "genfromtxt", "fromfile"), "yaml": ("load", "safe_load"), "PIL.Image": ("open",),
    "cv2": ("imread",), "h5py": ("File",), "pandas": ("read_csv", "read_json", "read_pickle", "read_parquet"),
    "scipy.io": ("loadmat",), "skimage.io": ("imread",), "imageio": ("imread",), "torchvision.io": ("read_image",),
    "csv": ("reader", "DictReader"),
}  # fmt: skip
LOADS = ("load", "loads")
TABLES = ("numpy.loadtxt", "numpy.genfromtxt")
DEFAULTS: dict[str, tuple[str, int, Any]] = {  # of options and their places, as they were before they had to be given
    "torch.load": ("weights_only", 9, False), "yaml.load": ("Loader", 1, lambda yaml: yaml.SafeLoader),
}  # fmt: skip
OPENERS = ("codecs.py", "pathlib.py")  # modules of Python's that open files for whoever calls them
exists = os.path.exists  # as it is before anything stands in for it
asked: collections.Counter[Any] = collections.Counter()  # how often a line asks for files that are not there
folders: set[str] = set()  # that were made because the program asked for something that may be one


def made_up(content: Any) -> bool:
    return isinstance(content, StandIn) or (isinstance(content, (str, bytes)) and content in (TEXT, TEXT.encode()))


def is_own(asking: Any) -> bool:
    """Whether the program asks, and not a library by itself."""
    while asking.f_code.co_filename.endswith(OPENERS):
        asking = asking.f_back
    return not asking.f_code.co_filename.startswith(LIBRARIES)


def absent(path: Any, asking: Any) -> bool:
    """Whether the program, not a library, asks for a file that does not exist."""
    if not is_own(asking):
        return False
    if isinstance(path, (TextFile, ByteFile)):
        return not path.closed and made_up(path.getvalue())  # else the program has written into it
    if isinstance(path, StandIn):
        return True
    return isinstance(path, (str, os.PathLike)) and (not exists(path) or os.path.abspath(path) in folders)


def opening(plain: Any) -> Any:
    def opened(path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        writes = bool(set(mode) & set("wax+"))
        if not writes and absent(path, sys._getframe(1)):
            used.add(f"the file {os.path.basename(os.fspath(path))}")
            return ByteFile(TEXT.encode()) if "b" in mode else TextFile(TEXT)
        if writes and isinstance(path, (str, os.PathLike)) and not exists(path) and os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)  # also for a library, which writes a log, say
        return plain(path, mode, *given, **named)

    return opened


def decoding(path: Any, mode: str = "r", encoding: Any = None, errors: str = "strict", buffering: int = -1) -> Any:
    """``codecs.open``, which decodes as ``open`` does."""
    if "b" in mode or encoding is None:
        return open(path, mode, buffering)
    return open(path, mode, buffering, encoding, errors)


def finding(plain: Any) -> Any:
    """A function that tests whether a file exists: it does. A path that may be a folder of the slice is created."""

    @functools.wraps(plain)
    def found(path: Any) -> bool:
        if plain(path):
            return True
        asking = sys._getframe(1)
        asked[asking.f_code, asking.f_lineno] += 1
        if ends_program(asking) or asked[asking.f_code, asking.f_lineno] > COUNT:  # which looks for what is not there
            return False
        is_absent = absent(path, asking)
        is_plain = is_absent and not isinstance(path, StandIn) and not os.path.isabs(path)
        if is_plain and path and not os.path.splitext(path)[1]:
            folder = os.path.abspath(path)
            while not exists(folder):
                folders.add(folder)
                folder = os.path.dirname(folder)
            os.makedirs(path, exist_ok=True)
        if is_absent:
            used.add(f"the file {os.path.basename(str(path))}".strip())
        return is_absent

    return found


def checkpoint(device: str) -> Any:
    """A file that a program with tensors on that device saved."""
    file = io.BytesIO()
    with patch("torch.serialization.location_tag", lambda storage: device):
        torch.save(torch.zeros(1), file)
    file.seek(0)
    return file


def loading(owner: Any, plain: Any, name: str, saved_on: str) -> Any:
    """A function that reads a file, and for one that is not there gives a stand-in.

    One that comes out of a checkpoint has a tensor that was ``saved_on`` a device: it is where the program loads it, or
    this fails.
    """

    @functools.wraps(plain)
    def loaded(*given: Any, **named: Any) -> Any:
        if given and (made_up(given[0]) if name.endswith("loads") else absent(given[0], sys._getframe(1))):
            used.add(name)
            if name in TABLES:
                return table(*given[1:2], **named)
            read = StandIn(f"{name}()")
            if name == "torch.load" and saved_on != "cpu":
                read._buffers["_saved"] = plain(checkpoint(saved_on), *given[1:], **named)
            return read
        option, place, value = DEFAULTS.get(name, ("", -1, None))
        if option not in named and len(given) <= place:
            named[option] = value(owner) if callable(value) else value
            used.add(f"the default of {option}")
        return plain(*given, **named)

    return loaded


def table(dtype: Any = float, **named: Any) -> Any:
    """What a file with rows of numbers has: the first column counts the rows, the last one has a few classes."""
    import numpy

    rows = numpy.arange(LENGTH)
    columns = named.get("usecols", range(WIDTH))
    columns = [columns] if isinstance(columns, int) else columns
    cells = numpy.stack([rows if column == 0 else (rows + column) % COUNT for column in columns], 1).squeeze()
    cells = cells.astype(float if dtype is None else dtype)
    return tuple(cells.T) if named.get("unpack") else cells


def listing(plain: Any, name_of: Callable[[str, int], str]) -> Any:
    """A function that lists files, and where there are none makes some names up."""

    @functools.wraps(plain)
    def listed(path: Any = ".", *given: Any, **named: Any) -> Any:
        asked = is_own(sys._getframe(1))
        found = [] if asked and not glob.has_magic(str(path)) and not exists(path) else plain(path, *given, **named)
        return [Named(name_of(str(path), i)) for i in range(COUNT)] if asked and not found else found

    return listed


def walking(plain: Any) -> Any:
    """``os.walk`` that finds files in a folder without any."""

    @functools.wraps(plain)
    def walked(top: Any, *given: Any, **named: Any) -> Any:
        found = list(plain(top, *given, **named))
        if is_own(sys._getframe(1)) and not any(files for _, _, files in found):
            return iter([(str(top), [], [Named(f"{i}.png") for i in range(COUNT)])])
        return iter(found)

    return walked


def making(plain: Any) -> Any:
    """A function that makes a folder, in one that may not be there either."""

    @functools.wraps(plain)
    def made(path: Any, *given: Any, **named: Any) -> Any:
        outer = os.path.dirname(os.path.abspath(path))
        if absent(outer, sys._getframe(1)):
            used.add(f"the folder {os.path.basename(outer)}")
            os.makedirs(outer)
        try:
            return plain(path, *given, **named)
        except FileExistsError:
            if os.environ.get("WORLD_SIZE", "1") == "1":
                raise
            return None  # another rank was faster

    return made


def saving(plain: Any) -> Any:
    """``torch.save``, which creates the folder if it does not exist."""

    @functools.wraps(plain)
    def saved(content: Any, path: Any, *given: Any, **named: Any) -> Any:
        folder = os.path.dirname(path) if isinstance(path, (str, os.PathLike)) else ""
        if folder and absent(folder, sys._getframe(1)):
            used.add(f"the folder {os.path.basename(folder)}")
            os.makedirs(folder, exist_ok=True)
        return plain(content, path, *given, **named)

    return saved


def restoring(plain: Any) -> Any:
    """``load_state_dict`` that passes over what comes from a file that is not there."""

    @functools.wraps(plain)
    def restored(whole: Any, state: Any, *given: Any, **named: Any) -> Any:
        fake = isinstance(state, StandIn) or any(isinstance(one, StandIn) for one in (*state, *state.values()))
        if not fake and state:
            return plain(whole, state, *given, **named)
        return torch.nn.modules.module._IncompatibleKeys([], []) if isinstance(whole, torch.nn.Module) else None

    return restored


def install_files(everything: bool, saved_on: str) -> None:
    """Checkpoints that do not exist have been ``saved_on`` a device."""
    builtins.open = io.open = opening(open)
    decoder: Any = codecs
    decoder.open = decoding
    readers: list[tuple[Any, str]] = [(torch, "load"), *((owner, name) for owner in (json, pickle) for name in LOADS)]
    readers += [(torch.hub, "load_state_dict_from_url"), (model_zoo, "load_url")]
    readers += [(real(package), name) for package, names in READERS.items() for name in names]
    for owner, name in readers:
        if hasattr(owner, name):
            setattr(owner, name, loading(owner, getattr(owner, name), f"{owner.__name__}.{name}", saved_on))
    stateful: tuple[Any, ...] = (torch.nn.Module, torch.optim.Optimizer)
    for kind in stateful:
        kind.load_state_dict = restoring(kind.load_state_dict)
    torch.save = saving(torch.save)
    os.mkdir = making(os.mkdir)
    os.listdir = listing(os.listdir, lambda path, i: f"{i}.png")
    os.walk = walking(os.walk)
    glob.glob = listing(glob.glob, lambda path, i: path.replace("*", str(i)))
    for name in ("exists", "isfile", "isdir") if everything else ():
        setattr(os.path, name, finding(getattr(os.path, name)))
