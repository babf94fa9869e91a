"""What a slice gets in place of the world outside: a command line, decisions, and data.

All of it is new text for nodes of the program. Files, downloads and data sets are replaced by tensors. Their shapes
come from the data sets that are known, and from the layers that take them. What else a slice lacks gets stand-ins when
it runs (standins/), which also fit shapes that are guessed wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

import libcst as cst

from placement_lint.flow.domain.path_condition import ELSEWHERE, Answer
from placement_lint.probe.checkpoints import Checkpoints
from placement_lint.probe.rendering import TRAINING
from placement_lint.probe.standins.sizes import COUNT, SIZES
from placement_lint.probe.units import Program, Unit, called
from placement_lint.rule import Line, Replay
from placement_lint.source.wording import source_text

Edits = dict[cst.CSTNode, str]


@dataclass(frozen=True)
class Supply:
    """New text for nodes. ``replaced`` are those of them in which nothing of the program is left.

    ``lines`` are added, which depend on what the units ``needed`` do. ``names`` says what tensors stand in for.
    """

    edits: Mapping[cst.CSTNode, str]
    replaced: frozenset[cst.CSTNode] = frozenset()
    lines: tuple[Line, ...] = ()
    needed: frozenset[Unit] = frozenset()
    names: Mapping[cst.CSTNode, str] = field(default_factory=dict)


def supplies(
    program: Program,
    answers: frozenset[Answer],
    replay: Replay,
    about: cst.CSTNode | None = None,
    meant: str = "",
) -> Iterator[Supply]:
    """What could stand in for the outside, the likeliest first.

    ``about`` is a node that should be reached, ``meant`` the name of a file that should be chosen where there is a
    choice.
    """
    bars = _progress_bars(program)
    checkpoints = Checkpoints(program, replay.saved_on)
    fixed: Edits = _calmed(program, replay.workers) | _arguments(program, answers, meant)
    fixed |= _decisions(program, answers)
    fixed |= {bar: f"({source_text(bar.args[0].value)})" for bar in bars}  # which may take more than one line
    fixed |= dict.fromkeys(checkpoints.tests, "True")
    fixed |= _command(program, about) if about is not None else {}
    readers = _Readers(program)
    lines, needed = tuple(checkpoints.lines), frozenset(checkpoints.needed)
    rest = frozenset(call.func for call in bars)
    if readers.calls:
        inputs = _inputs(program, readers)
        targets = TARGETS.format(rows=COUNT)
        data: Edits = {
            call: stand_in.format(inputs=inputs, targets=targets) for call, stand_in in readers.calls.items()
        }
        yield Supply({**fixed, **data}, rest | set(readers.calls), lines, needed, readers.names)
    # What is read may be asked for more than its items: then a stand-in answers that is made when the program runs.
    yield Supply(fixed, rest, lines, needed)


# --- the command line ------------------------------------------------------------------------------------------

NOT_GIVEN = " is None"
OPTIONS = ("add_argument", "option")  # what argparse and click call it to define one
OTHERWISE = {"action", "is_flag", "nargs", "multiple", "required"}  # make an option something else than one value
OPPOSITES = {"True": "False", "False": "True", "1": "0", "0": "1"}
VALUES = {"int": "1", "float": "1.0"}  # of arguments, by their type
LAUNCHED = ("local_rank", "rank")  # what a launcher tells each process; "--rank", "--local_rank" is the local one


def _arguments(program: Program, answers: frozenset[Answer], meant: str) -> Edits:
    """Values for options of the command line: one may have to name another device, or to be given at all.

    An option that chooses between several things by name chooses what is ``meant``.
    """
    elsewhere = {
        answer.question.text.rpartition(".")[2]
        for answer in answers
        if answer.given and answer.question.predicate is ELSEWHERE
    }
    given = {
        answer.question.text.removesuffix(NOT_GIVEN).rpartition(".")[2]
        for answer in answers
        if not answer.given and answer.question.text.endswith(NOT_GIVEN)
    }
    truly = {word for answer in answers if answer.given for word in re.findall(r"\w+", answer.question.text)}
    said = {
        answer.question.text.rpartition(".")[2]: answer.given
        for answer in answers
        if answer.question.predicate is not ELSEWHERE and not answer.question.text.startswith("self.")
    }
    edits: Edits = {}
    for node in program.unit_of:
        if isinstance(node, cst.Subscript) and source_text(node.value) == "sys.argv":
            edits[node] = _key(program, node) or '"data"'
    for call in [call for name in OPTIONS for _, call in program.callers.get(name, ()) if call.args]:
        option = _Option(call)
        launched = next((name for name in LAUNCHED if name in option.names), "")
        if launched:
            edits |= option.given(f'int(__import__("os").environ.get("{launched.upper()}", 0))')
        elif option.name in given and option.type == "int":
            edits |= option.given("0")
        elif option.name in elsewhere:
            edits |= option.given(option.other_device)
        elif (option.name in truly and option.is_empty) or (said.get(option.name) and option.is_nothing):
            edits |= option.given(option.some_value)
        elif option.is_switch and said.get(option.name):
            edits |= option.given("True")
        elif option.truth is not None and said.get(option.name, option.truth) is not option.truth:
            edits |= option.given(OPPOSITES[option.default])
        elif choice := next((one for one in option.choices if meant and _is_named(one, meant)), ""):
            edits |= option.given(choice)
    return edits


def _is_named(choice: str, name: str) -> bool:
    """Whether the text of a string says this name, in whatever spelling."""
    return re.sub(r"\W|_", "", choice).lower() == re.sub(r"\W|_", "", name).lower()


def unset(answers: frozenset[Answer]) -> frozenset[str]:
    """The options that have no value where the finding shows."""
    names = (
        answer.question.text.removesuffix(NOT_GIVEN)
        for answer in answers
        if answer.question.predicate is not ELSEWHERE and answer.given is answer.question.text.endswith(NOT_GIVEN)
    )
    paths = (name.split(".") for name in names)
    return frozenset(parts[-1] for parts in paths if all(part.isidentifier() for part in parts))


def _command(program: Program, about: cst.CSTNode) -> Edits:
    """Where a function is a command of a group of click's, the group gets its name in the place of a command line."""
    unit = program.unit_of.get(about)
    if unit is None:
        return {}
    for function in unit.above:
        for decorator in function.node.decorators if isinstance(function.node, cst.FunctionDef) else ():
            call = decorator.decorator
            if not (isinstance(call, cst.Call) and called(call) == "command" and isinstance(call.func, cst.Attribute)):
                continue
            group = source_text(call.func.value)
            named = call.args[0].value if call.args and call.args[0].keyword is None else None
            name = named.evaluated_value if isinstance(named, cst.SimpleString) else function.name.replace("_", "-")
            starts = [start for _, start in program.callers.get(group, ()) if not start.args]
            return {start: f"{group}([{str(name)!r}])" for start in starts}
    return {}


def _key(program: Program, argument: cst.Subscript) -> str:
    """Where an argument says which item of something is wanted, the first."""
    for node in program.unit_of:
        if isinstance(node, cst.Subscript) and len(node.slice) == 1 and node is not argument:
            index = node.slice[0].slice
            if isinstance(index, cst.Index) and index.value is argument:
                return f"next(iter({source_text(node.value)}))"
    return ""


class _Option:
    """A call of ``add_argument``."""

    def __init__(self, call: cst.Call) -> None:
        self.call = call
        self.keywords = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
        flags = [
            str(arg.value.evaluated_value)
            for arg in call.args
            if arg.keyword is None and isinstance(arg.value, cst.SimpleString)
        ]
        self.is_positional = bool(flags) and not flags[0].startswith("-")
        self.names = [flag.lstrip("-").replace("-", "_") for flag in sorted(flags, key=_is_short)]
        self.type = source_text(self.keywords["type"].value) if "type" in self.keywords else "str"

    @property
    def name(self) -> str:
        """What the program reads it by: its ``dest``, or the first long name."""
        dest = self.keywords.get("dest")
        if dest is not None and isinstance(dest.value, cst.SimpleString):
            return str(dest.value.evaluated_value)
        return next(iter(self.names), "")

    @property
    def is_empty(self) -> bool:
        """Whether it is a text that is empty unless it is given."""
        default = self.keywords.get("default")
        return default is not None and isinstance(default.value, cst.SimpleString) and not default.value.evaluated_value

    @property
    def is_nothing(self) -> bool:
        """Whether click makes it one value, and none unless it is given. What argparse makes gets one when it runs."""
        return (
            called(self.call) == "option"
            and self.default in ("", "None")
            and self.keywords.keys().isdisjoint(OTHERWISE)
        )

    @property
    def is_switch(self) -> bool:
        """Whether it is true where it is given, and false elsewhere."""
        action = self.keywords.get("action")
        text = action.value if action is not None else None
        return isinstance(text, cst.SimpleString) and text.evaluated_value == "store_true"

    @property
    def default(self) -> str:
        return source_text(self.keywords["default"].value) if "default" in self.keywords else ""

    @property
    def truth(self) -> bool | None:
        """Whether it is true unless it is given, where it can be the opposite."""
        return OPPOSITES[self.default] in ("False", "0") if self.default in OPPOSITES else None

    @property
    def other_device(self) -> str:
        """Another one than the first GPU, as the default names them."""
        default = self.keywords.get("default")
        if default is not None and isinstance(default.value, cst.SimpleString):
            text = str(default.value.evaluated_value)
            return '"1"' if text.isdigit() else '"cpu"'
        return "1" if self.type == "int" else '"cpu"'

    @property
    def choices(self) -> list[str]:
        given = self.keywords.get("choices")
        elements = given.value.elements if given is not None and isinstance(given.value, (cst.List, cst.Tuple)) else ()
        return [source_text(element.value) for element in elements]

    @property
    def some_value(self) -> str:
        return next(iter(self.choices), VALUES.get(self.type, '"data"'))

    def given(self, value: str) -> Edits:
        """The call with this default, and without a demand."""
        edits: Edits = {}
        added = []
        if "required" in self.keywords:
            edits[self.keywords["required"]] = "required=False"
        if "default" in self.keywords:
            edits[self.keywords["default"]] = f"default={value}"
        else:
            added.append(f"default={value}")
        if self.is_positional and "nargs" not in self.keywords:
            added.append('nargs="?"')
        if added:
            last = self.call.args[-1]
            text = edits.get(last, source_text(last.with_changes(comma=cst.MaybeSentinel.DEFAULT)))
            edits[last] = ", ".join([text, *added])
        return edits


def _is_short(flag: str) -> bool:
    return not flag.startswith("--")


# --- what a slice need not do as the program does ----------------------------------------------------------------

CALMED = {"pretrained": "False", "download": "False", "drop_last": "False"}
NO_WORKERS = {"num_workers": "0", "persistent_workers": "False", "prefetch_factor": "None",
              "multiprocessing_context": "None"}  # fmt: skip


def _calmed(program: Program, workers: bool) -> Edits:
    """No downloads, no batch that is too small; no processes of a loader, unless they matter."""
    calm = CALMED if workers else CALMED | NO_WORKERS
    return {
        arg: f"{arg.keyword.value}={calm[arg.keyword.value]}"
        for call in _calls(program)
        for arg in call.args
        if arg.keyword is not None
        if source_text(arg.value) != calm.get(arg.keyword.value, source_text(arg.value))
    }


def _progress_bars(program: Program) -> list[cst.Call]:
    """``tqdm(x)``, which is ``x`` where there is no tqdm."""
    if find_spec("tqdm"):
        return []
    bars = [call for call in _calls(program) if program.full_name(call.func).startswith("tqdm.")]
    return [call for call in bars if called(call) == "tqdm" and call.args]


def _calls(program: Program) -> Iterator[cst.Call]:
    for unit in program.units:
        yield from unit.calls


# --- decisions -----------------------------------------------------------------------------------------------------


def _decisions(program: Program, answers: frozenset[Answer]) -> Edits:
    """The program's own questions, answered as they are where the finding shows."""
    known: dict[str, bool] = {}
    for answer in answers:
        if answer.question.predicate is ELSEWHERE:
            continue
        text = answer.question.text
        known[text] = answer.given
        if text.startswith("len("):
            # ``if len(ids):`` asks the same.
            known[text.removesuffix(" > 0")] = answer.given
        known[text.replace(" is None", " is not None").replace(" == ", " != ")] = answer.given is not (
            " is None" in text or " == " in text
        )
    return {test: str(known[source_text(test)]) for test in _tests(program) if source_text(test) in known}


def _tests(program: Program) -> Iterator[cst.BaseExpression]:
    """The expressions that the program tests for truth."""
    for node in program.unit_of:
        if isinstance(node, (cst.If, cst.IfExp)):
            yield node.test
        elif isinstance(node, cst.BooleanOperation):
            yield from (node.left, node.right)
        elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            yield node.expression


# --- data ------------------------------------------------------------------------------------------------------------

DATASET, LOADER = "torch.utils.data.TensorDataset({inputs}, {targets})", "[({inputs}, {targets})] * 2"
TENSOR, ARRAY = "{inputs}", "{inputs}.numpy()"

# What reads data, and what can stand in for the result; nothing, where that depends on what is made of it.
READERS: dict[str, str] = {
    r"torchvision\.datasets\.\w+": DATASET,
    r"torchaudio\.datasets\.\w+": DATASET,
    r"datasets\.load_dataset": DATASET,
    r"numpy\.(load|loadtxt|genfromtxt|fromfile|memmap)": ARRAY,
    r"torchvision\.io\.(read|decode)_\w+": TENSOR,
    r"PIL\.Image\.open|cv2\.imread|skimage\.io\.imread|imageio\.\w*imread": "",
    r"pandas\.read_\w+|h5py\.File|scipy\.io\.\w+|pickle\.load|json\.load|yaml\.\w*load\w*|csv\.\w*reader": "",
    r"os\.(listdir|scandir|walk)|glob\.i?glob|open|requests\.\w+|urllib\.\w.*": "",
}


class _Readers:
    """The calls that read data, each with what can stand in for it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.calls: dict[cst.Call, str] = {}
        unknown: set[Unit] = set()
        for call in _calls(program):
            stand_in = _stand_in(program.full_name(call.func))
            if stand_in:
                self.calls[call] = stand_in
            elif stand_in is not None:
                unknown |= _whole(program.unit_of[call])
        for unit in program.units:
            for call in unit.calls:
                maker = next((one for one in unknown if one.name == called(call)), None)
                if maker is not None and not maker.contains(unit):
                    self.calls[call] = _made_by(maker)
        self.calls = {call: text for call, text in self.calls.items() if not self._is_inside_another(call)}

    @property
    def names(self) -> dict[cst.CSTNode, str]:
        return {call: self.program.full_name(call.func) for call in self.calls}

    def _is_inside_another(self, call: cst.Call) -> bool:
        return any(other is not call and _contains(other, call) for other in self.calls)


def _stand_in(name: str) -> str | None:
    return next((stand_in for pattern, stand_in in READERS.items() if re.fullmatch(pattern, name)), None)


def _whole(unit: Unit) -> set[Unit]:
    """The data set or function that is replaced where a unit reads something that has no stand-in of its own."""
    around = [outer for outer in unit.above if isinstance(outer.node, (cst.ClassDef, cst.FunctionDef))]
    maker = next((outer for outer in around if isinstance(outer.node, cst.ClassDef)), next(iter(around), None))
    return {maker} if maker is not None and _makes_data(maker) else set()


def _makes_data(maker: Unit) -> bool:
    """Whether a class can be indexed or iterated over; whether a function gives something back, and trains nothing."""
    if isinstance(maker.node, cst.ClassDef):
        return any(method.name in ("__getitem__", "__iter__") for method in maker.children)
    if any(called(call) in TRAINING for unit in maker.below for call in unit.calls):
        return False
    return any(isinstance(unit.small, cst.Return) and unit.small.value is not None for unit in maker.below)


def _made_by(maker: Unit) -> str:
    """What a class or function would have made of the data that it reads, by its name and what it returns."""
    if isinstance(maker.node, cst.ClassDef):
        return DATASET
    name = maker.name.lower()
    one = LOADER if "loader" in name else DATASET if "set" in name else TENSOR
    returned = [unit.small.value for unit in maker.below if isinstance(unit.small, cst.Return)]
    count = max((len(value.elements) for value in returned if isinstance(value, cst.Tuple)), default=1)
    if count == 1:
        return one
    return "({inputs}, {targets})" if one == TENSOR and count == 2 else f"({', '.join([one] * count)})"


def _contains(outer: cst.CSTNode, node: cst.CSTNode) -> bool:
    return any(child is node or _contains(child, node) for child in outer.children)


SIDE = 32  # of an image
TARGETS = "torch.randint(0, 2, ({rows},))"


def _inputs(program: Program, readers: _Readers) -> str:
    """A batch as the data set has it, or as the first layer takes it that says what it takes."""
    named = " ".join(program.full_name(call.func).lower() for call in readers.calls)
    known = next((shape for name, shape in SIZES.items() if name in named), None)
    if known is not None:
        return f"torch.randn({COUNT}, {', '.join(map(str, known))})"
    for unit in program.units:
        for call in unit.calls:
            layer, size = program.full_name(call.func).rpartition(".")[2], _size(program, call)
            if layer in TAKEN and size is not None:
                return TAKEN[layer].format(rows=COUNT, size=size, side=SIDE)
    return f"torch.randn({COUNT}, 3, {SIDE}, {SIDE})"


# What a layer takes whose first argument is ``size``.
TAKEN = {
    "Conv2d": "torch.randn({rows}, {size}, {side}, {side})",
    "Conv1d": "torch.randn({rows}, {size}, 64)",
    "Embedding": "torch.randint(0, {size}, ({rows}, 16))",
    **dict.fromkeys(("LSTM", "GRU", "RNN", "TransformerEncoderLayer"), "torch.randn({rows}, 16, {size})"),
    "Linear": "torch.randn({rows}, {size})",
}


def _size(program: Program, layer: cst.Call) -> int | None:
    """The first argument of a layer, where it is a number that can be told without running anything."""
    return program.number(layer.args[0].value) if layer.args else None
