"""Facts about the text of a definition: whether a finding can begin in it.

One can if the definition moves a tensor, wraps a model, builds an optimizer or changes a module while that runs. Texts
are read coarsely: a false match costs time, but adds no finding.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from keyword import iskeyword

from placement_lint.flow.api.torch_names import (
    CONTAINERS,
    CUDA_CONSTRUCTORS,
    FACTORIES,
    GRAD_FLAGS,
    MODULE_MOVES,
    OPTIMIZERS,
    PARAMETER_CONTAINERS,
    PARAMETER_READS,
    PARAMETRIC_LAYERS,
)
from placement_lint.flow.triage.cpu_tensor_escape import may_meet
from placement_lint.flow.triage.entry_facts import FORWARDS, INITIALISERS, TEXT, Alone, without_compared
from placement_lint.flow.triage.lexical import Text, at_word, attributes_of_self, end_of, outline, without_prose
from placement_lint.project.shelf import Shelf
from placement_lint.source.scan import words_of


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, names)))


def _last_parts(names: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[2] for name in names}


# Words that begin a finding wherever they occur, in lower case: by their beginning, or by a part of them.
_BEGINS = re.compile(
    r"parallel(?:_apply|_model|i[sz]e\w*)$|spawn|fork(?:server|_rng)?$|mp$|pack_(?:padded_)?sequence$|autocast"
    r"|reveal_placement$"
)
_BEGINS_WITHIN = re.compile(
    r"""parallel(?:$|(?<=data_parallel)|(?<=dataparallel)) | ddp | distributed | multiprocessing
    | sampler(?<!downsampler)(?<!upsampler)(?<!down_sampler)(?<!up_sampler)(?<!resampler)(?<!subsampler)(?!ate)
    | set_epoch | share_memory | pin_memory | dataloader | random_split | set_default(?!s$)
    | get_device$(?<!target_device) | custom_fwd""",
    re.VERBOSE,
)
# An optimizer of the program derives from the common base class, which is never instantiated.
_OPTIMIZERS = _last_parts(OPTIMIZERS) - {"Optimizer"}
# Moves to the same device, or to that of another tensor: x.to(y.device), x.to(y.dtype), x.to(torch.float32)
_LIKE_ANOTHER = r"""(?:(?:device=)?(?!self\.device)[\w.\[\]]+\.device|dtype=[^(),]+|[\w.\[\]]*dtype
    |torch\.(?:b?float\d*|u?int\d*|half|bool|long|double))"""
# A mere test for other accelerators leads to no finding.
_ACCELERATORS = ("xpu", "npu", "hpu", "XPU", "NPU", "HPU")
_GRAD_FLAG = re.compile(r"\.\w+\s*=(?!=)")
# Words that begin a finding only in a certain context.
_BEGINS_WHERE = {
    word: re.compile(pattern, re.VERBOSE | re.MULTILINE)
    for word, pattern in {
        "to": rf"\.to\((?!\s*{_LIKE_ANOTHER}\s*(?:,\s*{_LIKE_ANOTHER}\s*)*,?\s*\))",
        "to_empty": r"\.to_empty\(",
        "type": rf"\.type\((?!\s*{_LIKE_ANOTHER}\s*\))",
        # Queries of CUDA move nothing.
        "cuda": rf"""\.cuda\(|'cuda|"cuda|{at_word("cuda")}
            (?:\.(?!is_available|get_device_capability|is_bf16_supported)|\s*[=,)])""",
        "Accelerator": r"\bAccelerator\(",
        "current_accelerator": r"\bcurrent_accelerator\(",
        "gpu": r"['\"]gpu['\"]",
        "dist": rf"(?<!\.){at_word('dist')}\.",
        "environ": r"\benviron\b(?!\.get\()",
        "meta": r"['\"]meta['\"]",
        "mps": r"['\"]mps",
        "device": r"""\.device(?:(?<=self\.device)(?<!\wself\.device)\s*=(?!=)|(?<=torch\.device)(?<!\wtorch\.device)\(
            |\b(?:\.index\b)?\s*(?:[!=]=|\bis\b|\bin\b))""",
        "optim": rf"{at_word('optim')}\b(?!\.(?:Optimizer|optimizer|lr_scheduler)\b)",
        "load": rf"{at_word('torch')}\.load\b",
        "save": rf"{at_word('torch')}\.save\b",
        # Stored, or passed to a function: the receiver may iterate over it twice.
        "parameters": r"""(?<!list)(?<!tuple)(?<!next)(?<!iter)(?<!zip)(?<!chain)(?<!enumerate)(?<!clip_grad_norm_)
            \(\s*[\w.]+\.parameters\(\)\s*[,)] | =\s*[\w.]+\.parameters\(\)\s*?$""",
        "load_state_dict": r"\.load_state_dict(?<!super\(\)\.load_state_dict)\(",
        **{
            name: rf"(?<!\bhasattr\(torch,[ ]['\"])\b{name}\b(?!\.(?:is_available|device_count)\b)"
            for name in _ACCELERATORS
        },
    }.items()
} | dict.fromkeys(GRAD_FLAGS, _GRAD_FLAG)
# self.place = x.device
_KEEPS_DEVICE = re.compile(rf"{at_word('self')}\.\w+\s*=.{{0,120}}\.device\b")
# self.scale.data[rows], and not self.scale.data.fill_(0) or self.scale.data = x
_READ_AS_DATA = re.compile(
    rf"{at_word('self')}\.\w+\.data\b(?!\s*=(?!=)|\.\w+_\(|(?:\[[^\[\]\n]*\])+\s*(?:[-+*/@]?=(?!=)|\.\w+_\())"
)
# The kind of a device, which is not a move target: device_type = x.device.type if … else "cpu", autocast("cuda")
_KIND = re.compile(rf"\n[ \t]*device_type\s*=(?!=)[^\n]*|\bdevice_type={TEXT}|\bautocast\(\s*{TEXT}")
_KIND_ASKED = re.compile(
    r"autocast\w*\(\s*device_type\b|\bdevice_type=device_type\b|(?<!\.)\bdevice_type\s*(?:[=!]?=|(?:not\s+)?in\b)"
)
# A test whether something is on a GPU: x.is_cuda, x.device.type == "cuda"
_DEVICE_ASKED = re.compile(r"\.device\.type\s*(?:[=!]=|(?:not\s+)?in\b)\s*(?:[\[({][^\])}]{0,80}[\])}]|['\"]\w+['\"])")
_KNOWS_OF_GPU = re.compile(rf"\.is_cuda\b|{at_word('class')} \w+\([^)]*Trainer\b")

# ``range`` is the builtin unless it is ``torch.range``; other libraries have functions of the same names.
_FACTORIES = _last_parts((*FACTORIES, *CUDA_CONSTRUCTORS))
_FACTORY = re.compile(
    r"(?<!\b[nt][pf]\.)(?<!\bjnp\.)(?<!numpy\.)(?<!random\.)\b"
    rf"(?:{_any_of(_FACTORIES - {'range'})}|(?<=torch\.)range)\("
)
# torch.zeros(3, device=device), not device=x.device
_PLACES = re.compile(rf"{at_word('device')}=(?![\w.\[\]]*\.device\b)")
_TO_CPU = re.compile(rf"\.cpu\(|'cpu|\"cpu|{at_word('Generator')}\(")
# Numbers, which mix with anything: torch.tensor(1.0), torch.rand([])
_NUMBER_MADE = re.compile(
    r"""tensor\(\s*(?:-?[\d.][\w.]*\s*[,)]|(?:True|False)\b|float\(|-?torch\.finfo\()
        |(?:zeros|ones|empty|rand|randn)\((?:\[\s*\]|\(\s*\))\s*[,)]""",
    re.VERBOSE,
)
_PARAMETER = re.compile(rf"{at_word('Parameter')}\(")
# self.scale = nn.Parameter, and each attribute that is assigned
_TARGET = re.compile(rf"{at_word('self')}\.(\w+)\s*=\s*[\w.]*$")
_ATTRIBUTE_SET = re.compile(rf"{at_word('self')}\.(\w+)\s*=(?!=)")
# nn.Parameter(torch.log(x)): it shares no memory with the data it is made from
_NEW_DATA = re.compile(r"\s*torch\.(?:log|exp|sqrt|cat|stack|normal|\w+_like)\(")
# A tensor that is made here is registered at once ...
_REGISTERED = re.compile(r"(?:\bParameter\(|register_buffer\([^(),]+,)[^()]*$")
# ... or taken apart into numbers: [x.item() for x in torch.linspace(0, rate, depth)]
_NUMBERS = re.compile(r"\b(\w+)\.(?:item|tolist)\(\) for \1 in torch\.\w+\(")
# self.table = torch.zeros(3)
_KEPT_TENSOR = re.compile(rf"{at_word('self')}\.(\w+)\s*=(?!=)[^\n]{{0,80}}?{_FACTORY.pattern}")
_ANY = "*"
_OPERATORS = (".", "*", "/", "+", "-", "@", "[")
# Cache sizes: in characters of the texts, in words that begin a finding, in methods and the lines they leave, and in
# definitions analysed without a caller.
_LETTERS = 1_200_000
_WORDS_REMEMBERED = 32_768
_METHODS_REMEMBERED = 2_048
_DEFINITIONS_REMEMBERED = 256
# How far back a list that is multiplied is read.
_LONGEST_LIST = 1_000
# How far before a call the text is searched for the call that it is an argument of.
_NEAR = 80

# Containers that register the items of a list, and lists that repeat one item.
_REGISTERING = {"Sequential", "ModuleList", "ParameterList"}
_REPEATED = re.compile(r"\]\s*\*(?!\*)|\*\s*\[")
_ENDS_VALUE = re.compile(r"[\w)\]]\s*\Z")
_CALLED = re.compile(r"\b(\w+)\s*\(")
# Functions that return numbers, and those that return their arguments.
_NUMBERING = {
    *("int", "float", "bool", "str", "len", "round", "max", "min", "sum", "abs", "sqrt", "ceil", "floor", "range"),
    *("numel", "size", "to_2tuple", "to_3tuple", "to_ntuple", "_single", "_pair", "_triple", "make_divisible"),
}
_OF_NUMBERS = _NUMBERING | {
    *("zip", "enumerate", "tuple", "list", "isinstance", "reversed", "sorted", "getattr", "hasattr"),
}
_ASSIGNED_CALL = re.compile(rf"\n\s*(\w+)\s*=(?! *(?:\w+\.)*(?:{_any_of(_NUMBERING)})\().*\w\(")

# Attributes of other objects are set: net.table = x, self.net.table = x; no default: dtype: torch.dtype = x.
_OF_OTHERS = re.compile(r"\.(?<![^\w.]self\.)\w+\s*=(?!=)")
_TENDS = re.compile(r"\n[ \t]*\b(?:self\.\w+|(?!self\b)\w+)\b(?:\[[^\]\n]*\])?(?:\.\w+)*\.(\w+)\s*=(?!=)")
_SETS = re.compile(rf"{at_word('setattr')}\((?!self\b)")
# In a forward, and in methods of the class that it calls, with the text between brackets removed: self.x = …,
# self.x[i] += …, self.x.append(…); the value is not a constant
_CHANGES = re.compile(
    rf"""{at_word("self")}(?:\.\w+(?:\[\])?)+[ \t]*(?:[,:][^=\n]{{0,80}})?
        (?:=(?!=)(?![ \t]*(?:True|False|None|[-\d.]+|'\w*'|"\w*")[ \t]*$)|(?:[-+*/|&@%]|//|\*\*)=)
    | {at_word("self")}(?:\.\w+(?:\[\])?)+\.(?:append|add|extend|insert|update|setdefault|\w+_)\(""",
    re.MULTILINE | re.VERBOSE,
)
# The same with these calls: nn.Linear(…), Block(…)
_WITH_PARAMETERS = _last_parts((*PARAMETRIC_LAYERS, *CONTAINERS, *PARAMETER_CONTAINERS)) | {"Parameter"}
_MAKES = re.compile(
    rf"""{at_word("setattr")}\( | \.(?:{_any_of(PARAMETER_READS)})\(
    | {at_word("nn")}\.(?:{_any_of(_WITH_PARAMETERS)})\(""",
    re.VERBOSE,
)
_INSTANTIATED = re.compile(
    r"[A-Z](?<=(?<![\w.])(?!\w*(?:Error|Exception|Warning|Outputs?\w*|Cache|Dict|Loss)\()[A-Z])\w*(?=\()"
)
# Lists and dicts: self.blocks = [ …, or a name bound to one: self.blocks = blocks
_OPENED = r"(?:\[|\{|(?P<tuple>\()|(?:list|dict|tuple|\w*[dD]ict)\()"
_CONTAINER = rf"\s*(?::[^=\n]{{0,80}})?=\s*{_OPENED}"
_KEPT_CONTAINER = re.compile(rf"{at_word('self')}\.(\w+){_CONTAINER}")
_KEPT = re.compile(
    rf"{at_word('self')}\.(\w+)\s*(?::[^=\n]{{0,80}})?=\s*(?:{_OPENED}|(?P<name>\w+)[ \t]*$)", re.MULTILINE
)
_NAMED_CONTAINER = re.compile(rf"\n\s*(\w+){_CONTAINER}")
# blocks.append(…), self.blocks[0] = …, blocks += …
_FILLED = re.compile(
    r"""\b((?:self\.)?\w+)
        (?:(?:\[[^\]\n]{0,80}\])?\.(?:append|extend|insert|update|setdefault)\(|\[[^\]\n]{1,80}\]\s*=(?!=)|\s*\+=)""",
    re.VERBOSE,
)
_INIT = re.compile(rf"{at_word('def')} __init__\(")
_SUPER = re.compile(rf"{at_word('super')}\(.*?\)\.(\w+)")
# A line that assigns an attribute or returns something.
_ASSIGNED = re.compile(r"\bself(?:\.\w+)+(?:\[.*\])?\s*=(?!=)")
_LEAVING = re.compile(rf"{_ASSIGNED.pattern}|\bself\.(?:{_any_of(MODULE_MOVES)})\(|\breturn\b")
_LEAVING_TENSORS = re.compile(rf"{_LEAVING.pattern}|{_FACTORY.pattern}")


@lru_cache(_WORDS_REMEMBERED)
def _always_begins(word: str) -> bool:
    small = word.lower()
    return word in _OPTIMIZERS or _BEGINS.match(small) is not None or _BEGINS_WITHIN.search(small) is not None


_texts = Shelf[str, "Said"](_LETTERS, lambda said: len(said.code))


def read(text: str) -> Said:
    """The facts about a text, cached: an editor re-reads mostly the same definitions after each keystroke."""
    return _texts.get(text, lambda: _read(text))


def _read(text: str) -> Said:
    code = _DEVICE_ASKED.sub(".is_cuda", without_prose(text))
    while ("item() for " in code or "tolist() for " in code) and (numbers := _NUMBERS.search(code)) is not None:
        code = code[: numbers.start()] + code[end_of(code, numbers) :]
    return Said(code)


class Said(Text):
    """The text of a definition, with its facts that matter for findings."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self._leaves: dict[frozenset[str], str] = {}

    @cached_property
    def begins(self) -> bool:
        """Whether a finding can begin with it, whatever uses it."""
        return (
            bool(self.beginning_words)
            or any(_BEGINS_WHERE[word].search(self.code) for word in self.words & _BEGINS_WHERE.keys())
            or (self.has("device") and _KEEPS_DEVICE.search(self.code) is not None)
            or self.derives_parameters
            or self.repeats_layers
            or self.changes_in_forward
            or self.reads_parameters_as_data
        )

    @property
    def alone(self) -> Alone:
        """The same for a definition that nothing calls."""
        return _alone(self)

    def after(self, lines: Iterable[str]) -> Said:
        """The same with other lines before it."""
        before = "\n".join(lines)
        said = Said(f"{before}\n{self.code}")
        said.words = self.words.union(words_of(before))
        return said

    def part(self, code: str) -> Said:
        """The facts about a part of its text."""
        return Said(code)

    @cached_property
    def beginning_words(self) -> set[str]:
        """The words that begin a finding wherever they occur."""
        return set(filter(_always_begins, self.words))

    def begins_where(self, word: str) -> Iterator[re.Match[str]]:
        """The matches of a word that begins a finding only in a certain context."""
        return _BEGINS_WHERE[word].finditer(self.code) if word in self.words else iter(())

    @property
    def derives_parameters(self) -> bool:
        return self.has("Parameter") and any(map(self._is_derived, _PARAMETER.finditer(self.code)))

    @cached_property
    def reads_parameters_as_data(self) -> bool:
        """Whether it reads a possible Parameter of its own through ``.data``."""
        return self.has("Parameter") and self.has("data") and _READ_AS_DATA.search(self.code) is not None

    @property
    def repeats_layers(self) -> bool:
        return self.has(*_REGISTERING) and any(map(self._may_repeat_layers, _REPEATED.finditer(self.code)))

    @cached_property
    def taken(self) -> str:
        """The code without the strings that cannot be the device of a move."""
        code = self.code
        if self.has("device_type", "autocast") and "device_type" not in _KIND_ASKED.sub("", code):
            code = _KIND.sub("", code)
        return without_compared(code)

    @cached_property
    def is_of_cpu(self) -> bool:
        """Whether it makes tensors on the CPU, or brings them there: a finding begins where others are on a GPU."""
        return self.makes_tensors or (self.has("cpu", "Generator") and _TO_CPU.search(self.taken) is not None)

    @property
    def knows_of_gpu(self) -> bool:
        """Whether it knows of a GPU: it tests for one, or derives from a trainer that handles devices."""
        return (self.has("is_cuda") or "Trainer" in self.code) and _KNOWS_OF_GPU.search(self.code) is not None

    @cached_property
    def makes_tensors(self) -> bool:
        """Whether it makes a tensor that neither gets a ``device`` argument nor is registered at once."""
        return any(map(self._is_kept_elsewhere, self.each(_FACTORY, _FACTORIES)))

    @cached_property
    def gives_tensors(self) -> bool:
        """Whether other code may get tensors that a class made so: from its methods, or as an attribute."""
        return any(
            name not in INITIALISERS or _KEPT_TENSOR.search(method) is not None for name, method in self._makers.items()
        )

    @cached_property
    def tended(self) -> tuple[str, ...]:
        """The attributes of other objects that it may set, sorted; ``*`` if they can be any."""
        if self.has("setattr") and _SETS.search(self.code) is not None:
            return (_ANY,)
        lines = {self.code.rfind("\n", 0, found.start()) for found in _OF_OTHERS.finditer(self.code)}
        return tuple(sorted({found[1] for line in lines if (found := _TENDS.match(self.code, line)) is not None}))

    def may_be_tended(self, names: Collection[str]) -> bool:
        """Whether one of these can be an attribute of it."""
        return _ANY in names or not {*names}.isdisjoint(attributes_of_self(self.code))

    @cached_property
    def givers(self) -> set[str]:
        """The methods and attributes through which other code may get tensors that a class made, except its forward."""
        kept = {name for method in self._makers.values() for name in _KEPT_TENSOR.findall(method)}
        return (self._makers.keys() - INITIALISERS - {*FORWARDS}) | kept

    @cached_property
    def _makers(self) -> dict[str, str]:
        """The methods that make such tensors."""
        factories = self.words & _FACTORIES
        return {
            name: method
            for name, method in (self.methods.items() if self.makes_tensors else ())
            if any(factory in method for factory in factories) and Said(method).makes_tensors
        }

    @property
    def runs(self) -> bool:
        """Whether it has a forward."""
        return self.has(*FORWARDS)

    @property
    def packs(self) -> bool:
        """Whether it passes the lengths of sequences to ``pack_padded_sequence``."""
        return self.has("pack_padded_sequence")

    @cached_property
    def places(self) -> bool:
        """Whether it passes a ``device`` argument other than the device of another tensor."""
        return self.has("device") and _PLACES.search(self.code) is not None

    @cached_property
    def goes_to_cuda(self) -> bool:
        """Whether a forward moves something to CUDA, whatever the device of its module."""
        return self.has("cuda") and any(map(_BEGINS_WHERE["cuda"].search, self.reached_from(FORWARDS)))

    @cached_property
    def hides(self) -> bool:
        """Whether a forward may use modules that its instance received as arguments, from a plain list or dict."""
        if not self.runs:
            return False
        given = {word for each in _INIT.finditer(self.code) for word in words_of(self.inside(each))} - {"self"}
        hidden = {each[1] for each in _KEPT_CONTAINER.finditer(self.code) if self._holds_one_of(each, given)}
        return bool(hidden) and not hidden.isdisjoint(self._asked_in_forward)

    def _holds_one_of(self, container: re.Match[str], names: set[str]) -> bool:
        """Whether one of these names is an item of a list, or a value of a dict."""
        items = (item.rpartition(":")[2].strip() for item in self.inside(container).split(","))
        return any(item in names and item.isidentifier() for item in items)

    def _is_kept_elsewhere(self, made: re.Match[str]) -> bool:
        arguments = self.inside(made)
        told = "device=" in arguments or "**" in arguments
        registered = _REGISTERED.search(self.code, max(0, made.start() - _NEAR), made.start()) is not None
        return not (told or registered or self._stays_number(made))

    def _stays_number(self, made: re.Match[str]) -> bool:
        """Whether it is a tensor without dimensions, and nothing is derived from it at once."""
        if _NUMBER_MADE.match(self.code, made.start()) is None:
            return False
        before = self.code[max(0, made.start() - _NEAR) : made.start()]
        end = end_of(self.code, made)
        goes_on = self.code.startswith((".", "["), end) and not self.code.startswith(".to(", end)
        return not goes_on and "stack(" not in before

    def _is_derived(self, parameter: re.Match[str]) -> bool:
        """Whether a Parameter is made from existing data, another value is derived from it, or it is replaced."""
        after = self.code[end_of(self.code, parameter) :].lstrip(" ")
        data = self.inside(parameter)
        is_new = _FACTORY.search(data) is not None or _NEW_DATA.match(data) is not None
        return not is_new or after.startswith(_OPERATORS) or self._is_replaced(parameter)

    def _is_replaced(self, made: re.Match[str]) -> bool:
        """Whether the attribute that the new value is assigned to is assigned more than once."""
        target = _TARGET.search(self.code, self.code.rfind("\n", 0, made.start()) + 1, made.start())
        return target is not None and sum(name == target[1] for name in _ATTRIBUTE_SET.findall(self.code)) > 1

    def _may_repeat_layers(self, times: re.Match[str]) -> bool:
        """Whether the repeated item of a list is a call, or was returned by one."""
        if times[0].startswith("]"):
            items = self._before(times.start())
            return items is None or self._holds_made(items)
        before = self.code[max(0, times.start() - _NEAR) : times.start()]
        return _ENDS_VALUE.search(before) is not None and self._holds_made(self.inside(times))

    def _keeps_made(self, container: re.Match[str]) -> bool:
        """Whether a list, dict or tuple whose opening bracket ends the match holds more than numbers."""
        items = self.inside(container)
        is_container = container["tuple"] is None or "," in outline(items)
        return is_container and self._holds_made(items)

    def _holds_made(self, items: str) -> bool:
        """Whether one of these items is more than a number."""
        return not _OF_NUMBERS.issuperset(_CALLED.findall(items)) or not self._made.isdisjoint(words_of(items))

    @cached_property
    def _made(self) -> set[str]:
        """The variables to which it assigns the result of a call."""
        return set(_ASSIGNED_CALL.findall(self.code))

    def _before(self, end: int) -> str | None:
        """The text inside the list that ends there; empty if it is an item instead of a list, None if it is long."""
        depth = 1
        for start in range(end - 1, max(0, end - _LONGEST_LIST) - 1, -1):
            depth += (self.code[start] in ")]}") - (self.code[start] in "([{")
            if not depth:
                return "" if self._is_subject(start) else self.code[start + 1 : end]
        return None

    def _is_subject(self, end: int) -> bool:
        """Whether an item is taken of the value that ends there."""
        before = self.code[max(0, end - _NEAR) : end].rstrip(" ")
        words = words_of(before)
        return before.endswith((")", "]")) or (bool(words) and before.endswith(words[-1]) and not iskeyword(words[-1]))

    @cached_property
    def changes_in_forward(self) -> bool:
        """Whether a forward changes its module, makes a layer, or may use modules that only a list or dict holds."""
        return self.runs and (any(map(_changes, self.reached_from(FORWARDS))) or self.asks_plain_container)

    @cached_property
    def made_in_forward(self) -> set[str]:
        """The classes that a forward instantiates, by the names that it has for them."""
        reached = self.reached_from(FORWARDS) if self.runs else ()
        return {name for each in reached for name in _INSTANTIATED.findall(each)}

    @cached_property
    def _asked_in_forward(self) -> set[str]:
        """The attributes that a forward uses."""
        return {name for each in self.reached_from(FORWARDS) for name in attributes_of_self(each)}

    @cached_property
    def asks_plain_container(self) -> bool:
        """Whether a forward uses a list or dict of more than numbers, even one that is filled later."""
        asked = [each for each in _KEPT.finditer(self.code) if each[1] in self._asked_in_forward]
        kept = [(f"self.{each[1]}", each) for each in asked if each["name"] is None]
        names = {each["name"] for each in asked} - {None}
        kept += [(name, each) for name in names for each in self._containers_of(name)]
        return any(self._keeps_made(each) or name in self._filled for name, each in kept)

    def _containers_of(self, name: str) -> Iterator[re.Match[str]]:
        """The lines that bind a list or dict to a name: few contain the name, so this beats matching all lines."""
        done = begin = 0
        while (begin := self.code.find(name, begin)) >= 0:
            line = self.code.rfind("\n", done, begin)
            found = _NAMED_CONTAINER.match(self.code, line) if line >= 0 else None
            if found is not None and found.span(1) == (begin, begin + len(name)):
                yield found
            done = begin = begin + len(name)

    @cached_property
    def _filled(self) -> set[str]:
        """The lists and dicts into which it puts something."""
        return set(_FILLED.findall(self.code))

    @cached_property
    def _inherits(self) -> set[str]:
        """The names that a class may read from its base classes."""
        return {"__init__", *attributes_of_self(self.code), *_SUPER.findall(self.code)}

    @cached_property
    def requests(self) -> frozenset[str]:
        """The attributes that it, or methods of its own that it calls, read from a base class."""
        return frozenset(self._inherits - {"__init__"})

    def requests_by(self, *methods: str) -> frozenset[str]:
        """The same for those of these methods that it has."""
        return frozenset[str]().union(*(_requests(self.methods[name]) for name in methods if name in self.methods))

    def leaves_of(self, requested: frozenset[str], later: frozenset[str]) -> str:
        """The lines in which the methods of a class set or return the attributes that a subclass requests.

        ``later`` are the attributes requested by methods of the subclass that may run outside of its ``__init__``.
        """
        given = [
            (_left_by if name in later else _left_by_building)(self.methods[name])
            for name in sorted(requested & self.methods.keys())
        ]
        built = (line for line, left in self._built if left is None or not requested.isdisjoint(left))
        return "\n".join(filter(None, (*built, *given)))

    def leaves_less_to_builders(self, requested: frozenset[str]) -> bool:
        """Whether its methods leave less of these attributes if only ``__init__`` runs them."""
        methods = [self.methods[name] for name in requested & self.methods.keys()]
        return any(_left_by_building(method) != _left_by(method) for method in methods)

    @cached_property
    def _built(self) -> Sequence[tuple[str, Sequence[str] | None]]:
        """The lines in which its ``__init__`` sets or returns something, with the attributes; None if unknown."""
        lines = (line for method in self.reached_from(("__init__",)) for line in _left_by_building(method).split("\n"))
        return [(line, _assigned_in(line)) for line in lines if line]

    def leaves_to(self, user: Said) -> str:
        """The lines in which methods of a class set or return something for a subclass."""
        known = frozenset(user._inherits & self.methods.keys())
        if known not in self._leaves:
            self._leaves[known] = "\n".join(filter(None, map(_left_by, self.reached_from(known))))
        return self._leaves[known]


def _assigned_in(line: str) -> Sequence[str] | None:
    """The attributes to which a line assigns something; None if it only returns something."""
    assigned = _ASSIGNED.search(line)
    return attributes_of_self(line[: assigned.end()]) if assigned is not None else None


@lru_cache(_DEFINITIONS_REMEMBERED)
def _alone(said: Said) -> Alone:
    """Cached here: two objects that refer to each other would wait for the garbage collector."""
    return Alone(said)


@lru_cache(_METHODS_REMEMBERED)
def _requests(method: str) -> frozenset[str]:
    return frozenset((*attributes_of_self(method), *_SUPER.findall(method)))


@lru_cache(_METHODS_REMEMBERED)
def _left_by(method: str) -> str:
    """The lines of a method that set or return something."""
    leaving = _LEAVING_TENSORS if any(name in method for name in _FACTORIES) else _LEAVING
    return "\n".join(line for line in method.split("\n") if leaving.search(line) is not None)


@lru_cache(_METHODS_REMEMBERED)
def _left_by_building(method: str) -> str:
    """The same for a method that only ``__init__`` runs: lines that make a tensor do not count if none escapes."""
    if not Said(method).is_of_cpu or may_meet(method, in_init=True, is_given=True):
        return _left_by(method)
    return "\n".join(line for line in method.split("\n") if _LEAVING.search(line) is not None)


def _changes(method: str) -> bool:
    """Whether a method changes its module, or makes a layer."""
    return _MAKES.search(method) is not None or _CHANGES.search(outline(method)) is not None
