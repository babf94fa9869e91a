"""Files that a program loads and never saves: a slice saves them itself, with what the program takes out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from placement_lint.probe.units import Program, Unit, called
from placement_lint.rule import Line
from placement_lint.source.wording import source_text

ANYTHING = "torch.nn.Linear(8, 8)"
STATE = re.compile("state|model|net|weights")  # in the name of an item


class Checkpoints:
    """``lines`` save them, as if on ``device``, and ``tests`` are the calls that ask whether they are there.

    The state of a module in a file is that of the module as it is; ``needed`` are the units that load it.
    """

    def __init__(self, program: Program, device: str) -> None:
        self.program = program
        self.lines: list[Line] = []
        self.tests: list[cst.Call] = []
        self.needed: set[Unit] = set()
        if "save" in program.callers:
            return
        for _, load in program.callers.get("load", ()):
            if load.args and program.full_name(load.func) == "torch.load":
                path, content = source_text(load.args[0].value), self._content(load)
                if not content:
                    continue
                self.lines.append(Line(load, f'stored({path}, {content}, "{device}")', before=True))
                self.tests.extend(_tests(program, path))

    def _content(self, load: cst.Call) -> str:
        unit = self.program.unit_of[load]
        for outer in unit.calls:
            if called(outer) == "load_state_dict" and any(arg.value is load for arg in outer.args):
                return self._state(unit, outer)
            for arg in outer.args if called(outer) == "load_state_dict" else ():
                if isinstance(arg.value, cst.Subscript) and arg.value.value is load:
                    return f"{{{source_text(arg.value.slice[0])}: {self._state(unit, outer)}}}"
        small = unit.small
        target = small.targets[0].target if isinstance(small, cst.Assign) and small.value is load else None
        taken = self._taken_from(target.value, unit) if isinstance(target, cst.Name) else ""
        return ANYTHING if taken == "" else taken or ""

    def _taken_from(self, name: str, loading: Unit) -> str | None:
        """What the same function takes out of a file under this name; None where that is a whole object."""
        item = re.compile(rf"\b{name}\[(['\"])(\w+)\1\]")
        around = loading.function.below if loading.function else self.program.units
        later = [unit for unit in around if unit.function is loading.function and unit.place > loading.place]
        items: dict[str, str] = {}
        others = []
        for unit, call in _states_loaded(later):
            given = source_text(call.args[0].value)
            if given == name:
                return self._state(unit, call)
            if key := item.fullmatch(given):
                items[key[2]] = self._state(unit, call)
            else:
                others.append((unit, call))
        if any(_is_object(found, later) for found in map(_taken, later) if item.fullmatch(found[1])):
            return None
        for name in (found[2] for unit in later for found in item.finditer(source_text(unit.node))):
            if name not in items:
                # What is not loaded as it is may be so under other names.
                items[name] = self._state(*others[0]) if others and STATE.search(name) else "0"
        return f"{{{', '.join(f'{key!r}: {value}' for key, value in items.items())}}}" if items else ""

    def _state(self, unit: Unit, loaded: cst.Call) -> str:
        self.needed.add(unit)
        assert isinstance(loaded.func, cst.Attribute)
        return f"{source_text(loaded.func.value)}.state_dict()"


def _taken(unit: Unit) -> tuple[str, str]:
    """The name that an assignment binds, and what to, as texts."""
    small = unit.small
    if not isinstance(small, cst.Assign) or not isinstance(small.targets[0].target, cst.Name):
        return "", ""
    return small.targets[0].target.value, source_text(small.value)


def _is_object(taken: tuple[str, str], later: list[Unit]) -> bool:
    """Whether something is called, or a method of it is, so that it is neither a number nor the state of a module."""
    for call in (call for unit in later for call in unit.calls):
        owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        if isinstance(owner, cst.Name) and owner.value == taken[0] and not hasattr(dict, called(call)):
            return True
    return False


def _states_loaded(units: list[Unit]) -> Iterator[tuple[Unit, cst.Call]]:
    for unit in units:
        for call in unit.calls:
            if called(call) == "load_state_dict" and call.args and isinstance(call.func, cst.Attribute):
                yield unit, call


def _tests(program: Program, path: str) -> Iterator[cst.Call]:
    for name in ("exists", "isfile"):
        for _, call in program.callers.get(name, ()):
            if call.args and source_text(call.args[0].value) == path:
                yield call
