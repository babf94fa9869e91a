"""Textual facts of a definition that nothing calls: whether a finding can begin in it.

Its arguments are unknown, no option of the command line reaches it, and no replica runs it. So ``x.to(device)`` moves
to an unknown device, on which all rules are silent: the only possible findings are that the move is discarded, or that
the object cannot be moved. A change made by a forward counts if its next call reads it, a tensor on the CPU if it may
meet another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set
from functools import cached_property
from typing import TYPE_CHECKING

from placement_lint.flow.api.torch_names import CONTAINERS, GRAD_FLAGS, PARAMETER_CONTAINERS, PARAMETRIC_LAYERS
from placement_lint.flow.triage import cpu_tensor_escape
from placement_lint.flow.triage.lexical import at_word, outline
from placement_lint.source.scan import words_of

if TYPE_CHECKING:
    from placement_lint.flow.triage.definition_facts import Said

FORWARDS = ("forward", "training_step", "validation_step", "test_step", "predict_step")
# The methods that run only while an instance is constructed.
INITIALISERS = {"__init__", "reset_parameters", "_reset_parameters", "init_weights", "_init_weights"}

# --- words ---------------------------------------------------------------------------------------------------------

# These words need another word to begin a finding: there are no findings for other accelerators, or for autocast
# outside of DataParallel.
_NEEDS_MORE = re.compile(r"^(?:autocast\w*|custom_fwd|(?:is_)?model_parallel|parallelize)$", re.IGNORECASE)
# isinstance(net, DataParallel), torch.distributed.is_initialized(), import torch.distributed.fsdp
_ASKED_OR_IMPORTED = re.compile(
    rf"{at_word('isinstance')}\([^()]*\)|{at_word('torch')}\.distributed\.is_\w+"
    r"|\n[ \t]*(?:import|from)[ \t](?![^\n]* as )[^\n;]*"
)
# Words with the same patterns as in called definitions, and words with patterns of their own.
_AS_ELSEWHERE = (
    "parameters",
    "to_empty",
    "Accelerator",
    "current_accelerator",
    "gpu",
    "dist",
    "environ",
    "optim",
    "save",
    "load_state_dict",
)
_WHERE = {
    # torch.device(0)
    "device": re.compile(rf"{at_word('torch')}\.device\(\s*\d"),
    # layer.require_grad = False
    **dict.fromkeys(GRAD_FLAGS - {"requires_grad"}, re.compile(r"\.\w+\s*=(?!=)")),
}
# The same, but not where something is only compared with them. Queries of CUDA, and waiting for it, move nothing:
# torch.cuda.get_device_name(0), torch.cuda.Stream()
_WHERE_TAKEN = {
    "cuda": re.compile(
        rf"""\.cuda\(|['"]cuda|{at_word("cuda")}
            (?:\.(?!is_|get_|mem_|memory_|max_memory|reset_|empty_cache|manual_seed|synchronize|Event|(?:\w+_)?[sS]tream
                |OutOfMemoryError|device_count\(\)\s*[<>=!])|\s*[=,)])""",
        re.VERBOSE,
    ),
    "meta": re.compile(r"['\"]meta['\"]"),
}
# partial(f, table=self.table) keeps a reference to an attribute that a move may replace
_BOUND = re.compile(r"\bpartial\([^()]*[,=]\s*self\.")
# self.shift = torch.zeros(3, device=x.device)
_KEEPS_TENSOR_THERE = re.compile(rf"{at_word('self')}\.\w+\s*=(?!=).{{0,120}}?\bdevice=\w+\.device\b")
# With the text in brackets removed: self.device = get(), self.place = x.device, and not self.device = device
_KEEPS_DEVICE = re.compile(
    rf"{at_word('self')}\.(?:device\s*=(?!=)(?![ \t]*\w+[ \t]*$)|\w+\s*=(?!=).{{0,120}}?\.device\b)", re.MULTILINE
)
# A number that may be that of a GPU: run(0), tools.run(net, 1), but not range(3); self.run(0), gpu = 0, for n in (0, 1)
_NUMBER_GIVEN = r"\((?:[^()]*,\s*)?\d\s*[,)]"
_GIVEN_NUMBER = re.compile(_NUMBER_GIVEN)
_NUMBERED = re.compile(
    r"(?<![.\w])(?!(?:range|max|min|int|float|round|slice|enumerate|pow|isinstance|len|sum|tuple|list|super|getattr)\b)"
    r"[A-Za-z_][\w.]*$"
)
# Each pattern begins with letters: a single pattern for all of them would make the search five times slower.
_GPU_NUMBERED = (
    re.compile(rf"{at_word('self')}\.\w+{_NUMBER_GIVEN}"),
    *(re.compile(rf"{name}\w*\s*=\s*\d") for name in ("device", "gpu", "rank")),
    re.compile(rf"{at_word('in')} [\[(]\s*\d"),
)
# torch.zeros(3, device=get()), device = get()
_TOLD_PLACE = re.compile(rf"{at_word('device')}=(?![\w.\[\]]*\.device\b)([^,)]*)")
_ASSIGNED = re.compile(r"^[ \t]*(\w+)[ \t]*=(?!=)", re.MULTILINE)
# x.device == "cuda", x.device is not torch.device("cuda"), x.device != device, and not x.device != y.device
_DEVICE_COMPARED = re.compile(r"\.device\b(?:\.index\b)?\s*(?:[!=]=|\bis\b|\bin\b)(?!\s*[\w.\[\]]+\.device\b)")
_DEVICE_NAMED = re.compile(r"['\"](?:cpu|cuda|mps|[xnh]pu|xla|meta)\b")
# "cuda:1", and DEVICE, a usual name for such a string
_GPU_NAMED = re.compile(r"['\"](?:cuda|mps|[xnh]pu|xla)\b|(?:GPU|DEVICE)(?![a-z])")
_GPU_NAMES = ("cuda", "mps", "xpu", "npu", "hpu", "xla")

# Strings in comparisons only: kind == "cuda", kind in ("cpu", "mps"), "cuda" in kind,
# x.device != torch.device("meta"); not those that a loop iterates over
TEXT = r"['\"][\w:]*['\"]"
_COMPARED = re.compile(
    rf"""(?P<loop>{at_word("for")}\b[^\n:=]{{1,80}}?\bin\b)
        |(?:[=!]=|{at_word("in")})\s*
            (?:{TEXT}|torch\.device\(\s*{TEXT}\s*\)|[\[({{]\s*{TEXT}(?:\s*,\s*{TEXT})*\s*,?\s*[\])}}])
        |{TEXT}\s*(?:[=!]=|(?:\bnot\s+)?\bin\b)""",
    re.VERBOSE,
)

# --- frozen weights ------------------------------------------------------------------------------------------------

# weight.requires_grad = False, and the same assignment for any expression
_FREEZES = re.compile(r"\b(\w+)\b(?:\[[^\[\]\n]*\])?\.requires_grad\s*=(?!=)")
_FREEZES_ANY = re.compile(r"\.requires_grad\s*=(?!=)")
# for name, weight in net.named_parameters(): …
_PARAMETERS_IN_TURN = re.compile(r"\bfor\s+([\w\s,()]{1,80}?)\s+in\b(?:(?!\bin\b)[^\n]){0,200}?parameters\(")
_PARTS_OF_LAYERS = {"weight", "bias", "data"}

# --- moves ---------------------------------------------------------------------------------------------------------

# x.to(0), x.to(f"mps:{n}"), and not x.to("cpu")
_TOLD = re.compile(r"(?<!\w)(?:\d|f?['\"](?!cpu['\"]))")
# x.to(get()), not x.to(torch.device(d)) or x.to(getattr(y, "device"))
_TOLD_BY_FUNCTION = re.compile(r"(?<![.\w])(?!(?:getattr|next|str|int)\b)[a-z_]\w*\(")
# device = 0, device: str = "mps"
_SET_TO_TEXT = re.compile(r"\b(\w+)\s*(?::[^=\n]{0,80})?=\s*(?:f?['\"](?!cpu['\"])|\d)")
# Keywords that name no place but a type, or only name an argument: x.to(device=d, dtype=next(y).dtype)
_NO_PLACE = re.compile(r"\bdtype=[^,]*|\b(?:device|copy|non_blocking|memory_format)=")
# Values without .to(): x = [...], x = dict(...), x = np.zeros(3), x = net.state_dict(); possibly a function's result
_SET_TO_OTHER = re.compile(
    r"""\b((?:\w+\s*,\s*){0,8}\w+)\s*(?::[^=\n]{0,80})?=(?!=)\s*
        (?:[\[{]|\([^()\n]*,|(?P<cpu>['"]cpu['"])|f?['"]|(?:list|dict|tuple|set|\w*[dD]ict|sorted|zip|filter|map)\(
            |(?:np|numpy)\.
            |[^\n]{0,200}\.(?:numpy|state_dict|(?:named_)?parameters|items|keys|values|tolist)\(\)[ \t]*$
            |(?P<function>(?:self\.)?[a-z_]\w*)\()""",
    re.MULTILINE | re.VERBOSE,
)
# return {…}, return x, y, return dict(…), return found
_GIVES_OTHER = re.compile(
    r"\breturn\s*(?:[\[{]|\(?[^()\n]*,|f?['\"]|(?:list|dict|tuple|set|\w*[dD]ict|sorted|zip|np\.\w+)\(|\w+\s*$)",
    re.MULTILINE,
)
_GIVING_OTHER = {"numpy", "state_dict", "tolist", "parameters"}
_CPU = re.compile(r"\.cpu\(")
# if isinstance(x, torch.Tensor): x = x
_IS_TENSOR = re.compile(
    rf"""{at_word("isinstance")}\((\w+),[ \t]*(?:torch\.)?Tensor\):\s*
        (?:return[ \t]+|[\w.]+(?:\[[^\[\]\n]*\])?[ \t]*=[ \t]*)?\1$""",
    re.VERBOSE,
)
_ENDS_IN_NAME = re.compile(r"(?:\w+\.)*\w+$")
_FUNCTION = re.compile(r"(?:self\.)?[a-z_]\w*")
# A statement that ends in a move, without the text in brackets: x[].to, if a: b().to
_STATEMENT = re.compile(r"[ \t]*(?:\w[^\n]*[:;][ \t]+)?[\w.]+(?:\[\]|\(\)|\.\w+)*")
# Ends of a line that do not end a statement.
_GOES_ON = (",", "(", "[", "{", "=", "+", "-", "*", "/", "|", "&", "\\", " and", " or", " not", " in", " if", " else")
# How far back the moved value, and the statement around it, are read.
_LONGEST = 1_000
# How many moves are read.
_MOST_MOVES = 200

# --- values that a forward leaves, and uses of tensors --------------------------------------------------------------

# self.x = …, self.part.x += …, where the value is not a constant; with the text between brackets removed
_LEAVES = re.compile(
    rf"""{at_word("self")}(?:\.\w+(?:\[\])?)*\.(\w+)[ \t]*(?:[,:][^=\n]{{0,80}})?
        (?:=(?!=)(?![ \t]*(?:True|False|None|[-\d.]+|'\w*'|"\w*")[ \t]*$)|(?:[-+*/|&@%]|//|\*\*)=)""",
    re.MULTILINE | re.VERBOSE,
)
_LAYERS = sorted({name.rpartition(".")[2] for name in (*PARAMETRIC_LAYERS, *CONTAINERS, *PARAMETER_CONTAINERS)})
_MAKES_LAYER = re.compile(rf"{at_word('setattr')}\(|{at_word('nn')}\.(?:{'|'.join((*_LAYERS, 'Parameter'))})\(")
# self.mask(), cls.mask(), Net.mask(); and self(x)
_ASKED_FOR = re.compile(r"\.(\w+)")
_RUNS_ITSELF = re.compile(rf"{at_word('self')}\(")
_RUNS_OWN = re.compile(rf"{at_word('self')}\.(\w+)\(")
_IS_FUNCTION = re.compile(r"\s*\n(?:@.*\n)*(?:async )?def\b")


def without_compared(code: str) -> str:
    """The code without texts that something is only compared with."""
    return _COMPARED.sub(lambda found: found["loop"] or "", code)


class Alone:
    """The facts of a definition that matter for findings if nothing calls it: an entry point."""

    def __init__(self, said: Said) -> None:
        self.said = said
        self.code = said.code

    @cached_property
    def begins(self) -> bool:
        """Whether a finding can begin with it."""
        said = self.said
        return (
            any(map(self._begins_by, said.beginning_words))
            or any(any(said.begins_where(word)) for word in _AS_ELSEWHERE)
            or any(_WHERE[word].search(self.code) is not None for word in said.words & _WHERE.keys())
            or any(_WHERE_TAKEN[word].search(said.taken) is not None for word in said.words & _WHERE_TAKEN.keys())
            or self._keeps_or_compares_device
            or (said.runs and said.has("partial") and _BOUND.search(self.code) is not None)
            or len(self.moves) > _MOST_MOVES
            or any(map(self._may_be_in_vain, self.moves))
            or (said.has("cpu") and any(map(self._may_move_other, _CPU.finditer(self.code))))
            or self._may_freeze_module
            or said.reads_parameters_as_data
            or said.derives_parameters
            or said.repeats_layers
            or self.adds_in_forward
            or bool(self.left_in_forward)
        )

    def _begins_by(self, word: str) -> bool:
        """Whether a finding begins with a word: not if it is only used in type tests."""
        return _NEEDS_MORE.search(word) is None and word in self._words_used

    @cached_property
    def _words_used(self) -> set[str]:
        return set(words_of(_ASKED_OR_IMPORTED.sub("", self.code)))

    @property
    def _keeps_or_compares_device(self) -> bool:
        if not self.said.has("device"):
            return False
        compares = _DEVICE_COMPARED.search(self.code) is not None and _DEVICE_NAMED.search(self.code) is not None
        keeps = _KEEPS_TENSOR_THERE.search(self.code) is not None
        return compares or keeps or _KEEPS_DEVICE.search(outline(self.code)) is not None

    @property
    def loads(self) -> bool:
        """Whether it loads a checkpoint, which may be a finding if the program around it chooses a device."""
        return any(self.said.begins_where("load"))

    @property
    def _may_freeze_module(self) -> bool:
        """Whether ``requires_grad`` may be assigned to something that is not a parameter."""
        if not self.said.has("requires_grad"):
            return False
        frozen, times = _FREEZES.findall(self.code), len(_FREEZES_ANY.findall(self.code))
        parameters = {word for found in _PARAMETERS_IN_TURN.findall(self.code) for word in words_of(found)}
        return times > len(frozen) or not parameters.union(_PARTS_OF_LAYERS).issuperset(frozen)

    # --- moves -------------------------------------------------------------------------------------------------------

    @cached_property
    def moves(self) -> list[re.Match[str]]:
        """The calls that move a tensor to a device in the arguments: x.to(device), x.type(kind)."""
        return [*self.said.begins_where("to"), *self.said.begins_where("type")]

    @property
    def tells_places(self) -> bool:
        """Whether it moves or makes something on a given device."""
        return self.said.places or bool(self.moves)

    @cached_property
    def names_gpu(self) -> bool:
        """Whether it may name a device by a string or number."""
        named = self.said.has(*_GPU_NAMES) or "GPU" in self.code or "DEVICE" in self.code
        if named and _GPU_NAMED.search(self.code) is not None:
            return True
        return any(pattern.search(self.code) is not None for pattern in _GPU_NUMBERED)

    @property
    def tells_own_places(self) -> bool:
        """Whether it moves or makes something on a device that does not come from its caller alone."""
        if self.names_gpu:
            return True
        given = {word for header in self.said.headers for word in words_of(header)} - set(_ASSIGNED.findall(self.code))
        told = {word for place in _TOLD_PLACE.findall(self.code) for word in words_of(place)}
        return not given >= told | self.targets

    @property
    def given_numbers(self) -> set[str]:
        """The words of the functions that it passes a number, which may be that of a GPU."""
        given = (_NUMBERED.search(self._line_before(found)) for found in _GIVEN_NUMBER.finditer(self.code))
        return {word for function in given if function is not None for word in words_of(function[0])}

    def _line_before(self, found: re.Match[str]) -> str:
        return self.code[self.code.rfind("\n", 0, found.start()) + 1 : found.start()]

    @cached_property
    def targets(self) -> set[str]:
        """The names in the device arguments of its moves."""
        return {word for move in self.moves for word in words_of(self._target(move))}

    def _target(self, move: re.Match[str]) -> str:
        return _NO_PLACE.sub("", without_compared(outline(self.said.inside(move))))

    def _may_be_in_vain(self, move: re.Match[str]) -> bool:
        """Whether a move may lead to a finding although the devices of the arguments are unknown."""
        target = self._target(move)
        return (
            _TOLD.search(target) is not None
            or _TOLD_BY_FUNCTION.search(target) is not None
            or not self._set_otherwise.isdisjoint(words_of(target))
            or (self.said.has("grad") and self.said.has("requires_grad", "requires_grad_"))
            or (self.said.has("Parameter") and move[0] in self.said.before_methods)
            or self._is_discarded(move)
            or self._may_move_other(move)
        )

    @cached_property
    def _set_otherwise(self) -> set[str]:
        """The names that may stand for a device: bound to a string or number, or to the result of a function."""
        return {*_SET_TO_TEXT.findall(self.code), *_names(each for each in self._set_to_other if not each["cpu"])}

    @cached_property
    def _others(self) -> set[str]:
        """The names that may stand for something other than a tensor."""
        return _names(self._set_to_other)

    @cached_property
    def _set_to_other(self) -> list[re.Match[str]]:
        return [
            found
            for found in _SET_TO_OTHER.finditer(self.code)
            if found["function"] is None or self._may_give_other(found["function"])
        ]

    def _may_give_other(self, function: str) -> bool:
        """Whether a function, by its name, may be one that is defined here, and return a list or dict."""
        owner, _, name = function.rpartition(".")
        return not owner or _GIVES_OTHER.search(self.said.methods.get(name, "")) is not None

    def _may_move_other(self, move: re.Match[str]) -> bool:
        """Whether the moved object may be a list, a dict, or another object without ``.to()``."""
        before = self._before(move)
        opened = _opening(before)
        if opened is not None:
            return self._may_be_other(before[:opened], before[-1])
        name = _ENDS_IN_NAME.search(before)
        if name is None:
            return before.endswith(("'", '"'))
        return name[0].rpartition(".")[2] in self._others and _IS_TENSOR.search(before) is None

    def _may_be_other(self, before: str, closing: str) -> bool:
        """The same for an expression that ends with a bracket: a literal, or a call of the function in ``before``."""
        function = _ENDS_IN_NAME.search(before)
        if closing != ")":
            return closing == "}" or (function is None and not before.endswith((")", "]")))
        if function is None:
            return False
        is_own = _FUNCTION.fullmatch(function[0]) is not None and not before[: function.start()].endswith(".")
        return function[0].rpartition(".")[2] in _GIVING_OTHER or (is_own and self._may_give_other(function[0]))

    def _is_discarded(self, move: re.Match[str]) -> bool:
        """Whether a move is a statement of its own."""
        statement = _statement_of(self._before(move))
        return statement is None or (_STATEMENT.fullmatch(statement) is not None and statement.strip() != "self")

    def _before(self, move: re.Match[str]) -> str:
        return self.code[max(0, move.start() - _LONGEST) : move.start()]

    # --- forwards ----------------------------------------------------------------------------------------------------

    @cached_property
    def adds_in_forward(self) -> bool:
        """Whether a forward makes a layer, or uses modules that only a plain list holds."""
        return self.said.runs and (
            any(_MAKES_LAYER.search(method) is not None for method in self.said.reached_from(FORWARDS))
            or self.said.asks_plain_container
        )

    @cached_property
    def left_in_forward(self) -> Set[str]:
        """The attributes that a forward leaves for the next one."""
        return _left_and_read("".join(self.said.reached_from(FORWARDS))) if self.said.runs else set()

    @cached_property
    def runs_parts_aside(self) -> bool:
        """Whether a method that neither a forward nor ``__init__`` calls may run a submodule."""
        known = {*self.said.reached_from((*FORWARDS, *INITIALISERS))}
        aside = [method for method in self.said.methods.values() if method not in known]
        return any(not self.said.methods.keys() >= {*_RUNS_OWN.findall(method)} for method in aside)

    # --- tensors on the CPU ------------------------------------------------------------------------------------------

    @cached_property
    def meets(self) -> bool:
        """Whether a tensor that it makes on the CPU may meet others in it."""
        return self.said.is_of_cpu and self._lets_meet(self._making, is_given=False)

    def meets_on_gpu(self, is_module: bool) -> bool:
        """Whether it may meet a tensor on a GPU: if it knows of a GPU, or in a module, which may be on one.

        A module may as well be on the CPU. So only its forward, which should work on any device, leads to findings.
        """
        if not self.said.is_of_cpu:
            return False
        if is_module:
            return self._meets_in_forward if self.meets_in_forward_only else self.meets
        return self._knows_of_gpu and self.meets

    @property
    def meets_in_forward_only(self) -> bool:
        """Whether it does so only in a forward, if it is a module: nothing names a GPU."""
        return not (self._knows_of_gpu or self.names_gpu)

    @property
    def _knows_of_gpu(self) -> bool:
        """Whether it tests for a GPU or names one."""
        return self.said.knows_of_gpu or self.said.has("cuda")

    @cached_property
    def _meets_in_forward(self) -> bool:
        """The same for the methods that a forward runs, or whose results ``__init__`` leaves to it."""
        making = [name for name in self._making if name in self.in_forward or name not in self.said.run_later]
        return self.said.is_of_cpu and self._lets_meet(making, is_given=False)

    @cached_property
    def in_forward(self) -> Set[str]:
        """The methods that a forward may run: all that it names, and those named in the text before all methods."""
        methods = self.said.run_later
        found, new = set[str](), {*FORWARDS, *words_of(self.said.head)} & methods.keys()
        while new:
            found |= new
            new = {word for name in new for word in words_of(methods[name])} & methods.keys() - found
        return found

    @cached_property
    def words_in_forward(self) -> Set[str]:
        """The words of the methods that a forward may run, and of those that run before it."""
        aside = self.said.run_later.keys() - self.in_forward
        texts = (self.said.head, *(method for name, method in self.said.methods.items() if name not in aside))
        return {word for text in texts for word in words_of(text)}

    @cached_property
    def gives_or_meets(self) -> bool:
        """Whether its CPU tensors may meet others in its own code or in code that uses it."""
        return self.said.is_of_cpu and self._lets_meet(self._making, is_given=True)

    def _lets_meet(self, methods: Iterable[str], *, is_given: bool) -> bool:
        if _IS_FUNCTION.match(self.code) is not None:
            return cpu_tensor_escape.may_meet(self.code, in_init=False, is_given=is_given)
        if self.said.part(self.said.head).is_of_cpu:
            return True
        asked = {*_ASKED_FOR.findall(self.code), *(FORWARDS if _RUNS_ITSELF.search(self.code) is not None else ())}
        return any(
            cpu_tensor_escape.may_meet(
                self.said.methods[name],
                in_init=name not in self.said.run_later,
                is_given=is_given or name in asked or name.startswith("__"),
            )
            for name in methods
        )

    @cached_property
    def _making(self) -> list[str]:
        """The methods that make tensors on the CPU."""
        return [name for name, method in self.said.methods.items() if self.said.part(method).is_of_cpu]


def _names(assignments: Iterable[re.Match[str]]) -> set[str]:
    """The names to which something is assigned, except ``self``, which may match as a parameter before a default."""
    return {name.strip() for found in assignments for name in found[1].split(",")} - {"self"}


def _left_and_read(code: str) -> Set[str]:
    """The attributes that are both assigned and read: each ``self.x = …`` is one mention of them."""
    left, mentions = Counter(_LEAVES.findall(outline(code))), Counter(_ASKED_FOR.findall(code))
    return {name for name, times in left.items() if mentions[name] > times}


def _opening(code: str) -> int | None:
    """The position of the bracket that the code's last bracket closes; None if it ends with none, or is far away."""
    depth = 0
    for position in range(len(code) - 1, -1, -1):
        depth += (code[position] in ")]}") - (code[position] in "([{")
        if depth <= 0:
            return position if position < len(code) - 1 else None
    return None


def _statement_of(code: str) -> str | None:
    """The last statement of the code, without the text in brackets; None if it is long."""
    depth = 0
    for position in range(len(code) - 1, -1, -1):
        depth += (code[position] in ")]}") - (code[position] in "([{")
        if depth < 0:
            return "("
        if not depth and code[position] == "\n" and not code[:position].rstrip().endswith(_GOES_ON):
            return outline(code[position + 1 :])
    return None
