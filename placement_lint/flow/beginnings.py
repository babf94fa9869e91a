"""What a finding begins with, told by the text of a definition.

It makes a tensor on the CPU, moves one, wraps a model, builds an optimizer, changes a module while that runs. Texts are
read without comments and docstrings, and coarsely: what only seems to be said costs time, and no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from keyword import iskeyword

from placement_lint.flow.vocabulary import CUDA_CONSTRUCTORS, FACTORIES, GRAD_FLAGS, MODULE_MOVES, PARAMETER_READS


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, names)))


# Words that begin a finding wherever they are said.
_BEGINS = re.compile(
    rf"""^[xnh]pu$ | parallel | ddp | ^dist$ | distributed | world_size | rank$ | spawn | worker | fork
    | ^mp$ | multiprocessing | environ | sampler | set_epoch | share_memory | pin_memory
    | optim | scheduler | backward$ | zero_grad | clip_grad | inference_mode | ^(?:{_any_of(GRAD_FLAGS)})
    | set_default | get_device$ | dataloader | random_split | ^generator$
    | ^pack_ | ^autocast | custom_fwd | register_\w*hook""",
    re.IGNORECASE | re.VERBOSE,
)
# Words that do so only where they are said in a certain way.
_BEGINS_WHERE = {
    word: re.compile(pattern)
    for word, pattern in {
        **{name: rf"\.{name}\(" for name in (*MODULE_MOVES, "type", "numpy", "state_dict", "load_state_dict", "step")},
        # What is only asked of CUDA moves nothing.
        "cuda": r"\.cuda\(|['\"]cuda|\bcuda\.(?!is_available|get_device_capability|is_bf16_supported)|\bcuda\s*[=,)]",
        "cpu": r"\.cpu\(|['\"]cpu",
        "gpu": r"['\"]gpu['\"]",
        "meta": r"['\"]meta['\"]",
        "mps": r"['\"]mps",
        "device": r"\bself\.device\b|\bself\.\w+\s*=.*\.device\b|\btorch\.device\b"
        r"|\.device\b(?:\.type\b|\.index\b)?\s*(?:[!=]=|\bis\b|\bin\b)",
        "load": r"\btorch\.load\b",
        "save": r"\btorch\.save\b",
        "data": r"\.data\b\s*(?:\[.*\]\s*)?=(?!=)",
        "module": r"\.module\b",
        "grad": r"\.grad\b",
    }.items()
}

# ``range`` is Python's own, where it is not ``torch.range``.
_FACTORIES = {name.rpartition(".")[2] for name in (*FACTORIES, *CUDA_CONSTRUCTORS)} - {"range"}
_FACTORY = re.compile(rf"\b(?:{_any_of(_FACTORIES)}|(?<=torch\.)range)\(")
_PARAMETER = re.compile(r"\bParameter\(")
# What is made here is registered at once ...
_REGISTERED = re.compile(r"(?:\bParameter\(|register_buffer\([^(),]+,(?:\s*\w+=)?)\s*(?:\w+\.)*$")
# ... or taken apart into numbers: [x.item() for x in torch.linspace(0, rate, depth)]
_NUMBERS = re.compile(r"\b(\w+)\.(?:item|tolist)\(\) for \1 in torch\.\w+\(")
_OPERATORS = (".", "*", "/", "+", "-", "@", "[")
# How many texts are remembered, and of how many words what they begin.
_REMEMBERED = 512
_WORDS_REMEMBERED = 32_768
# How far back a list is read that is multiplied.
_LONGEST_LIST = 1_000
# How far before a call what it is an argument of is looked for.
_NEAR = 80

# Containers that register what a list has, and lists that have one thing many times.
_CONTAINERS = {"Sequential", "ModuleList", "ParameterList"}
_REPEATED = re.compile(r"\]\s*\*(?!\*)|\*\s*\[")
_MADE = re.compile(r"^\s*(\w+)\s*=.*(?:\bnn\.|\b[A-Z]\w*\()", re.MULTILINE)
_CALLED = re.compile(r"\b(\w+)\s*\(")
_OF_NUMBERS = {"int", "float", "bool", "str", "len", "round", "max", "min", "sum", "abs", "sqrt", "ceil", "floor"}

# Attributes of other objects are looked after: net.table = x, self.net.table = x.
_TENDS = re.compile(
    r"^[ \t]*(?:self\.\w+|(?!self\b)\w+)(?:\[[^\]\n]*\])?(?:\.\w+)*\.\w+\s*=(?!=)|\bsetattr\((?!self\b)", re.MULTILINE
)
# In a forward, and in what that calls of its class: self.x = …, self.x[i] += …, self.x.append(…), nn.Linear(…)
_FORWARDS = ("forward", "training_step", "validation_step", "test_step", "predict_step")
_IN_FORWARD = re.compile(
    rf"""\bself(?:\.\w+)+(?:\[.{{0,80}}\])?\s*(?:[-+*/|&@%]|//|\*\*|[:,][^=\n]{{0,80}})?=(?!=)
    | \bself(?:\.\w+)+(?:\[.{{0,80}}\])?\.(?:append|add|extend|insert|update|setdefault|\w+_)\(
    | \bsetattr\( | \.(?:{_any_of(PARAMETER_READS)})\( | \bnn\.[A-Z]\w*\(
    | (?<![\w.])(?!\w*(?:Error|Exception|Warning|Outputs?\w*|Cache)\()[A-Z]\w*\(""",
    re.VERBOSE,
)
_PLAIN_CONTAINER = re.compile(r"\bself\.(\w+)\s*(?::[^=\n]*)?=\s*(?:\[|\{|\(|(?:list|dict|tuple|\w*[dD]ict)\()")
_METHOD = re.compile(r"^(?P<indent>[ \t]+)(?:async[ \t]+)?def[ \t]+(?P<name>\w+)", re.MULTILINE)
_OWN = re.compile(r"\bself\.(\w+)")
_SUPER = re.compile(r"\bsuper\(.*?\)\.(\w+)")
_LEAVING = re.compile(
    rf"^.*(?:\bself(?:\.\w+)+(?:\[.*\])?\s*=(?!=)|\bself\.(?:{_any_of(MODULE_MOVES)})\(|\breturn\b|{_FACTORY.pattern}).*$",
    re.MULTILINE,
)

_CLASS = re.compile(r"(?:@.*\s+)*class\b")
_WORD = re.compile(r"[^\W\d]\w*")
_BRACKET = re.compile(r"(?P<open>[(\[{])|[)\]}]")
# Comments, docstrings and messages; what is inside an f-string is code.
_PROSE = re.compile(
    r"""\#[^\r\n]* | (?P<prefix>\b[a-zA-Z]{1,2})?
    (?: '''(?:[^'\\]|\\.|'(?!''))*''' | \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\"
    | '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" )""",
    re.DOTALL | re.VERBOSE,
)


def _without_prose(found: re.Match[str]) -> str:
    is_code = found["prefix"] is not None and "f" in found["prefix"].lower()
    return found[0] if is_code or not (found[0].startswith("#") or " " in found[0] or "\n" in found[0]) else ""


@lru_cache(_WORDS_REMEMBERED)
def _always_begins(word: str) -> bool:
    return _BEGINS.search(word) is not None


@lru_cache(_REMEMBERED)
def read(text: str) -> Text:
    """What a text says. Most of an editor's text is what it was a keystroke ago."""
    code = _PROSE.sub(_without_prose, text)
    while (numbers := _NUMBERS.search(code)) is not None:
        code = code[: numbers.start()] + code[_end(code, numbers) :]
    return Text(code)


def _end(code: str, call: re.Match[str]) -> int:
    """Where the call, or the list, ends that was found up to its bracket."""
    depth = 1
    for bracket in _BRACKET.finditer(code, call.end()):
        depth += 1 if bracket["open"] else -1
        if not depth:
            return bracket.end()
    return len(code)


class Text:
    """What a definition says, by its code without comments, docstrings and messages."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._leaves: dict[frozenset[str], str] = {}

    @property
    def is_class(self) -> bool:
        return _CLASS.match(self.code) is not None

    @cached_property
    def words(self) -> set[str]:
        return set(_WORD.findall(self.code))

    @cached_property
    def begins(self) -> bool:
        """Whether a finding can begin with it."""
        return (
            any(map(_always_begins, self.words))
            or any(_BEGINS_WHERE[word].search(self.code) for word in self.words & _BEGINS_WHERE.keys())
            or self.makes_tensors
            or (self._has("Parameter") and any(map(self._is_derived, _PARAMETER.finditer(self.code))))
            or (self._has(*_CONTAINERS) and any(map(self._may_repeat_layers, _REPEATED.finditer(self.code))))
            or (self._has(*_FORWARDS) and self._changes_in_forward)
        )

    @cached_property
    def makes_tensors(self) -> bool:
        """Whether it makes a tensor that is neither told its device nor registered at once."""
        return self._has(*_FACTORIES) and any(map(self._is_kept_elsewhere, _FACTORY.finditer(self.code)))

    @property
    def tends(self) -> bool:
        """Whether it may look after attributes of other objects."""
        return _TENDS.search(self.code) is not None

    @property
    def packs(self) -> bool:
        """Whether it tells that something is the lengths of sequences."""
        return self._has("pack_padded_sequence")

    def _has(self, *words: str) -> bool:
        return not self.words.isdisjoint(words)

    def _is_kept_elsewhere(self, made: re.Match[str]) -> bool:
        arguments = self._arguments(made)
        told = "device=" in arguments or "**" in arguments
        return not told and _REGISTERED.search(self.code, max(0, made.start() - _NEAR), made.start()) is None

    def _is_derived(self, parameter: re.Match[str]) -> bool:
        """Whether a Parameter is made of something that is there already, or something is made of it."""
        value = self._arguments(parameter)
        after = self.code[_end(self.code, parameter) :].lstrip(" ")
        return _FACTORY.search(value) is None or after.startswith(_OPERATORS)

    def _may_repeat_layers(self, times: re.Match[str]) -> bool:
        """Whether what a list has many times is a call, or what a class made."""
        items = self._before(times.start()) if times[0].startswith("]") else self._arguments(times)
        if items is None:
            return True
        if not _OF_NUMBERS.issuperset(_CALLED.findall(items)):
            return True
        return not self._made_names.isdisjoint(_WORD.findall(items))

    @cached_property
    def _made_names(self) -> set[str]:
        """The variables to which it assigns what a class makes."""
        return set(_MADE.findall(self.code))

    def _arguments(self, call: re.Match[str]) -> str:
        return self.code[call.end() : _end(self.code, call) - 1]

    def _before(self, end: int) -> str | None:
        """What is in the list that ends there; nothing if that is no list, but an item of one, None if it is long."""
        depth = 1
        for start in range(end - 1, max(0, end - _LONGEST_LIST) - 1, -1):
            depth += (self.code[start] in ")]}") - (self.code[start] in "([{")
            if not depth:
                return "" if self._is_subject(start) else self.code[start + 1 : end]
        return None

    def _is_subject(self, end: int) -> bool:
        """Whether what ends there is something of which an item is taken."""
        before = self.code[max(0, end - _NEAR) : end].rstrip(" ")
        words = _WORD.findall(before)
        return before.endswith((")", "]")) or (bool(words) and before.endswith(words[-1]) and not iskeyword(words[-1]))

    @property
    def _changes_in_forward(self) -> bool:
        """Whether a forward changes its module, makes one, or may use some that only a plain list or dict has."""
        reached = self._reached_from(_FORWARDS)
        plain = {found[1] for found in _PLAIN_CONTAINER.finditer(self.code)}
        return any(_IN_FORWARD.search(each) is not None or not plain.isdisjoint(_OWN.findall(each)) for each in reached)

    def leaves_to(self, user: Text) -> str:
        """The lines in which methods of a class leave or give something to a class that derives from it."""
        called = {"__init__", *_OWN.findall(user.code), *_SUPER.findall(user.code)}
        known = frozenset(called & self._methods.keys())
        if known not in self._leaves:
            lines = (line[0] for each in self._reached_from(known) for line in _LEAVING.finditer(each))
            self._leaves[known] = "\n".join(lines)
        return self._leaves[known]

    def _reached_from(self, names: Iterable[str]) -> Iterable[str]:
        """The texts of the methods of these names, and of all that they call of the same class."""
        methods, waiting = self._methods, list(names)
        reached: dict[str, str] = {}
        while waiting:
            name = waiting.pop()
            if name in methods and name not in reached:
                reached[name] = methods[name]
                waiting += _OWN.findall(methods[name])
        return reached.values()

    @cached_property
    def _methods(self) -> dict[str, str]:
        """By its name, the text of each method of a class, with the functions inside."""
        found = list(_METHOD.finditer(self.code))
        outermost = min((len(each["indent"]) for each in found), default=0)
        starts = [each for each in found if len(each["indent"]) == outermost]
        ends = [*(each.start() for each in starts), len(self.code)][1:]
        methods: dict[str, str] = {}
        for each, end in zip(starts, ends, strict=True):
            methods[each["name"]] = methods.get(each["name"], "") + self.code[each.start() : end]
        return methods
