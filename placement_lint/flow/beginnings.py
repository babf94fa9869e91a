"""What a finding begins with, told by the text of a definition.

It moves a tensor, wraps a model, builds an optimizer, changes a module while that runs. Texts are read coarsely: what
only seems to be said costs time, and no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from keyword import iskeyword

from placement_lint.flow import meetings
from placement_lint.flow.texts import Text, at_word, attributes_of_self, end_of, outline, without_prose
from placement_lint.flow.vocabulary import (
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
from placement_lint.project.shelf import Shelf
from placement_lint.source.scan import words_of


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, names)))


def _last_parts(names: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[2] for name in names}


# Words that begin a finding wherever they are said.
_BEGINS = re.compile(
    rf"""^[xnh]pu$ | data_?parallel | parallel$ | ^parallel(?:_apply|_model|i[sz]e\w*)$ | ddp | distributed
    | ^spawn | ^fork(?:server|_rng)?$ | ^mp$ | multiprocessing
    | (?<!down)(?<!up)(?<!down_)(?<!up_)(?<!re)(?<!sub)sampler(?!ate)
    | set_epoch | share_memory | pin_memory | dataloader | random_split | set_default(?!s$) | (?<!tar)get_device$
    | ^pack_(?:padded_)?sequence$
    | ^autocast | custom_fwd
    | ^(?-i:{_any_of(_last_parts(OPTIMIZERS))})$""",
    re.IGNORECASE | re.VERBOSE,
)
# What stays where it is, or goes where another tensor is: x.to(y.device), x.to(y.dtype), x.to(torch.float32)
_LIKE_ANOTHER = r"""(?:(?:device=)?(?!self\.device)[\w.\[\]]+\.device|dtype=[^(),]+|[\w.\[\]]*dtype
    |torch\.(?:b?float\d*|u?int\d*|half|bool|long|double))"""
_GRAD_FLAG = rf"\.(?:{_any_of(GRAD_FLAGS)})\s*=(?!=)"
# Words that do so only where they are said in a certain way.
_BEGINS_WHERE = {
    word: re.compile(pattern, re.VERBOSE)
    for word, pattern in {
        "to": rf"\.to\((?!\s*{_LIKE_ANOTHER}\s*(?:,\s*{_LIKE_ANOTHER}\s*)*,?\s*\))",
        "to_empty": r"\.to_empty\(",
        "type": rf"\.type\((?!\s*{_LIKE_ANOTHER}\s*\))",
        # What is only asked of CUDA moves nothing.
        "cuda": rf"""\.cuda\(|'cuda|"cuda|{at_word("cuda")}
            (?:\.(?!is_available|get_device_capability|is_bf16_supported)|\s*[=,)])""",
        "gpu": r"['\"]gpu['\"]",
        "dist": rf"(?<!\.){at_word('dist')}\.",
        "environ": r"\benviron\b(?!\.get\()",
        "meta": r"['\"]meta['\"]",
        "mps": r"['\"]mps",
        "device": rf"""{at_word("self")}\.(?:device\s*=(?!=)|\w+\s*=.{{0,120}}\.device\b)|{at_word("torch")}\.device\(
            |\.device\b(?:\.index\b)?\s*(?:[!=]=|\bis\b|\bin\b)""",
        "optim": rf"{at_word('optim')}\b(?!\.(?:Optimizer|optimizer|lr_scheduler)\b)",
        "load": rf"{at_word('torch')}\.load\b",
        "save": rf"{at_word('torch')}\.save\b",
        "load_state_dict": r"\.load_state_dict(?<!super\(\)\.load_state_dict)\(",
        **dict.fromkeys(GRAD_FLAGS, _GRAD_FLAG),
    }.items()
}
# The same where nobody calls a definition: of what it is given nothing is known, no option of the command line comes to
# it, no replica runs it. And of what is neither on the CPU nor on CUDA nothing is found but that it is moved in vain.
_NEEDS_MORE = re.compile(r"^(?:[xnh]pu|autocast\w*|custom_fwd|(?:is_)?model_parallel|parallelize)$", re.IGNORECASE)
_BEGINS_WHERE_UNCALLED = {
    **{
        word: pattern
        for word, pattern in _BEGINS_WHERE.items()
        if word not in ("to", "type", "mps", "load", *GRAD_FLAGS)
    },
    # What is only asked of CUDA, or waits for it, moves nothing: torch.cuda.get_device_name(0), torch.cuda.Stream()
    "cuda": re.compile(
        rf"""\.cuda\(|['"]cuda|{at_word("cuda")}
            (?:\.(?!is_|get_|mem_|memory_|max_memory|reset_|empty_cache|manual_seed|synchronize|Event|(?:\w+_)?[sS]tream
                |OutOfMemoryError|device_count\(\)\s*[<>=!])|\s*[=,)])""",
        re.VERBOSE,
    ),
    "device": re.compile(rf"{at_word('torch')}\.device\(\s*\d"),
    # The typos of it, and what may be a module: self.layer.requires_grad = False, not weight.requires_grad = False
    **dict.fromkeys(GRAD_FLAGS - {"requires_grad"}, re.compile(_GRAD_FLAG)),
}
# Without what is in brackets: self.device = get(), self.place = x.device, and not self.device = device
_KEEPS_DEVICE = re.compile(
    rf"""{at_word("self")}\.(?:device\s*=(?!=)(?![ \t]*\w+[ \t]*$)|\w+\s*=(?!=).{{0,120}}?\.device\b)""", re.MULTILINE
)
# partial(f, table=self.table): it keeps what a move may replace
_BOUND = re.compile(r"\bpartial\([^()]*[,=]\s*self\.")
# isinstance(net, DataParallel), torch.distributed.is_initialized(), import torch.distributed.fsdp
_ASKED_OR_IMPORTED = re.compile(
    r"\bisinstance\([^()]*\)|\btorch\.distributed\.is_\w+|\n[ \t]*(?:import|from)[ \t](?![^\n]* as )[^\n]*"
)
# x.device == "cuda", x.device is not torch.device("cuda"), x.device != device, and not x.device != y.device
_DEVICE_COMPARED = re.compile(r"\.device\b(?:\.index\b)?\s*(?:[!=]=|\bis\b|\bin\b)(?!\s*[\w.\[\]]+\.device\b)")
_DEVICE_NAMED = re.compile(r"['\"](?:cpu|cuda|mps|[xnh]pu|xla|meta)\b")
# Texts that only something is compared with: kind == "cuda", kind in ("cpu", "mps"), "cuda" in kind; and those that
# only name the kind of a device: device_type = x.device.type if … else "cpu", autocast("cuda")
_TEXT = r"['\"][\w:]*['\"]"
_COMPARED = re.compile(
    rf"""(?:[=!]=|\bin)\s*(?:torch\.device\(\s*{_TEXT}\s*\)|{_TEXT}|[\[({{]\s*{_TEXT}(?:\s*,\s*{_TEXT})*\s*,?\s*[\])}}])
        |{_TEXT}\s*(?:[=!]=|(?:\bnot\s+)?\bin\b)""",
    re.VERBOSE,
)
_KIND = re.compile(rf"(?:\n[ \t]*device_type\s*=(?!=)[^\n]*|\bdevice_type={_TEXT}|\bautocast\(\s*{_TEXT})")
_KIND_AS_DEVICE = re.compile(r"(?:\.to\(|\bdevice=|\bdevice\()\s*device_type\b")
# for name, weight in net.named_parameters(): weight.requires_grad = False
_FREEZES = re.compile(r"(\w+)(?:\[[^\]\n]*\])?\.requires_grad\s*=(?!=)")
_PARAMETERS_IN_TURN = re.compile(r"\bfor\b([^\n]*)\bin\b[^\n]*parameters\(")
_PARTS_OF_LAYERS = {"weight", "bias", "data"}
# x.to(0), x.to(f"mps:{n}"), and not x.to("cpu")
_TOLD = re.compile(r"(?<!\w)(?:\d|f?['\"](?!cpu['\"]))")
# x.to(get()), not x.to(torch.device(d)) or x.to(getattr(y, "device"))
_TOLD_BY_FUNCTION = re.compile(r"(?<![.\w])(?!getattr\b|next\b|str\b|int\b)[a-z_]\w*\(")
# device = 0, device: str = "mps"
_SET_TO_TEXT = re.compile(r"\b(\w+)\s*(?::[^=\n]{0,80})?=\s*(?:f?['\"](?!cpu['\"])|\d)")
# What has no .to(): x = [...], x = dict(...), x = np.zeros(3), x = net.state_dict(); it may have come of a function
_SET_TO_OTHER = re.compile(
    r"""\b((?:\w+\s*,\s*)*\w+)\s*(?::[^=\n]{0,80})?=(?!=)\s*
        (?:[\[{]|\([^()\n]*,|f?['"]|(?:list|dict|tuple|set|\w*[dD]ict|sorted|zip|filter|map)\(|(?:np|numpy)\.
            |[^\n]*\.(?:numpy|state_dict|(?:named_)?parameters|items|keys|values|tolist)\(\)[ \t]*$
            |(?P<function>(?:self\.)?[a-z_]\w*)\()""",
    re.MULTILINE | re.VERBOSE,
)
_ENDS_IN_NAME = re.compile(r"(?:\w+\.)*\w+$")
# What is no end of a statement.
_GOES_ON = (",", "(", "[", "{", "=", "+", "-", "*", "/", "|", "&", "\\", " and", " or", " not", " in", " if", " else")
_OWN_FUNCTION = re.compile(r"(?:self\.)?[a-z_]\w*")
_GIVES_OTHER = re.compile(
    r"\breturn\s*(?:[\[{]|\(?[^()\n]*,|f?['\"]|(?:list|dict|tuple|set|\w*[dD]ict|sorted|zip|np\.\w+)\(|\w+\s*$)",
    re.MULTILINE,
)
_STATEMENT = re.compile(r"[ \t]*(?:\w[^\n]*[:;][ \t]+)?[\w.]+(?:\[\]|\(\)|\.\w+)*")
# Something is asked for that is on a GPU: x.is_cuda, x.device.type == "cuda"
_DEVICE_ASKED = re.compile(r"\.device\.type\s*(?:[=!]=|(?:not\s+)?in\b)\s*(?:[\[({][^\])}]{0,80}[\])}]|['\"]\w+['\"])")
_KNOWS_OF_GPU = re.compile(rf"\.is_cuda\b|{at_word('class')} \w+\([^)]*Trainer\b")

# ``range`` is Python's own, where it is not ``torch.range``; other libraries have names of the same kind.
_FACTORIES = _last_parts((*FACTORIES, *CUDA_CONSTRUCTORS))
_FACTORY = re.compile(
    r"(?<!\b[nt][pf]\.)(?<!\bjnp\.)(?<!numpy\.)(?<!random\.)\b"
    rf"(?:{_any_of(_FACTORIES - {'range'})}|(?<=torch\.)range)\("
)
# torch.zeros(3, device=device), not device=x.device
_PLACES = re.compile(rf"{at_word('device')}=(?![\w.\[\]]*\.device\b)")
_TO_CPU = re.compile(rf"\.cpu\(|'cpu|\"cpu|{at_word('Generator')}\(")
_CPU = re.compile(r"\.cpu\(")
_PARAMETER = re.compile(rf"{at_word('Parameter')}\(")
# Numbers, which mix with anything: torch.tensor(1.0), torch.rand([])
_NUMBER_MADE = re.compile(
    r"tensor\(\s*(?:-?[\d.]|True\b|False\b|float\(|-?torch\.finfo\()|\w+\((?:\[\s*\]|\(\s*\))\s*[,)]"
)
# nn.Parameter(torch.log(x)): it shares no memory with what it is made of
_NEW_DATA = re.compile(r"\s*torch\.(?:log|exp|sqrt|cat|stack|\w+_like)\(")
# What is made here is registered at once ...
_REGISTERED = re.compile(r"(?:\bParameter\(|register_buffer\([^(),]+,)[^()]*$")
# ... or taken apart into numbers: [x.item() for x in torch.linspace(0, rate, depth)]
_NUMBERS = re.compile(r"\b(\w+)\.(?:item|tolist)\(\) for \1 in torch\.\w+\(")
# self.table = torch.zeros(3)
_KEPT_TENSOR = re.compile(rf"{at_word('self')}\.(\w+)\s*=(?!=)[^\n]{{0,80}}?{_FACTORY.pattern}")
# The methods that only they run who make an instance.
_INITIALISERS = {"__init__", "reset_parameters", "_reset_parameters", "init_weights", "_init_weights"}
_ANY = frozenset({"*"})
_OPERATORS = (".", "*", "/", "+", "-", "@", "[")
# Of how many letters the texts are that are remembered, of how many words what they begin, and of how many methods what
# they leave.
_LETTERS = 600_000
_WORDS_REMEMBERED = 32_768
_METHODS_REMEMBERED = 256
# How far back a list is read that is multiplied.
_LONGEST_LIST = 1_000
# How far before a call what it is an argument of is looked for.
_NEAR = 80

# Containers that register what a list has, and lists that have one thing many times.
_REGISTERING = {"Sequential", "ModuleList", "ParameterList"}
_REPEATED = re.compile(r"\]\s*\*(?!\*)|(?<=[\w)\]])\s*\*\s*\[")
_CALLED = re.compile(r"\b(\w+)\s*\(")
# Functions that give numbers, and those that give what they were given.
_NUMBERING = {
    *("int", "float", "bool", "str", "len", "round", "max", "min", "sum", "abs", "sqrt", "ceil", "floor", "range"),
    *("numel", "size", "to_2tuple", "to_3tuple", "to_ntuple", "_single", "_pair", "_triple", "make_divisible"),
}
_OF_NUMBERS = _NUMBERING | {
    *("zip", "enumerate", "tuple", "list", "isinstance", "reversed", "sorted", "getattr", "hasattr"),
}
_ASSIGNED_CALL = re.compile(rf"\n\s*(\w+)\s*=(?! *(?:\w+\.)*(?:{_any_of(_NUMBERING)})\().*\w\(")

# Attributes of other objects are looked after: net.table = x, self.net.table = x; no default: dtype: torch.dtype = x.
_OF_OTHERS = re.compile(r"\.(?<!\bself\.)\w+\s*=(?!=)")
_TENDS = re.compile(r"\n[ \t]*(?:self\.\w+|(?!self\b)\w+)(?:\[[^\]\n]*\])?(?:\.\w+)*\.(\w+)\s*=(?!=)")
_SETS = re.compile(rf"{at_word('setattr')}\((?!self\b)")
# In a forward, and in what that calls of its class, what is between brackets left out: self.x = …, self.x[i] += …,
# self.x.append(…); what it is set to is no constant
_FORWARDS = ("forward", "training_step", "validation_step", "test_step", "predict_step")
_CHANGES = re.compile(
    rf"""{at_word("self")}(?:\.\w+(?:\[\])?)+[ \t]*(?:[,:][^=\n]{{0,80}})?
        (?:=(?!=)(?![ \t]*(?:True|False|None|[-\d.]+|'\w*'|"\w*")[ \t]*$)|(?:[-+*/|&@%]|//|\*\*)=)
    | {at_word("self")}(?:\.\w+(?:\[\])?)+\.(?:append|add|extend|insert|update|setdefault|\w+_)\(""",
    re.MULTILINE | re.VERBOSE,
)
_LEAVES = re.compile(
    rf"""{at_word("self")}(?:\.\w+(?:\[\])?)*\.(\w+)[ \t]*(?:[,:][^=\n]{{0,80}})?
        (?:=(?!=)(?![ \t]*(?:True|False|None|[-\d.]+|'\w*'|"\w*")[ \t]*$)|(?:[-+*/|&@%]|//|\*\*)=)""",
    re.MULTILINE | re.VERBOSE,
)
# And with it: nn.Linear(…), Block(…)
_WITH_PARAMETERS = _last_parts((*PARAMETRIC_LAYERS, *CONTAINERS, *PARAMETER_CONTAINERS)) | {"Parameter"}
_MAKES = re.compile(
    rf"""{at_word("setattr")}\( | \.(?:{_any_of(PARAMETER_READS)})\(
    | {at_word("nn")}\.(?:{_any_of(_WITH_PARAMETERS)})\(""",
    re.VERBOSE,
)
_MAKES_LAYER = re.compile(
    rf"""{at_word("setattr")}\( | {at_word("nn")}\.(?:{_any_of(_WITH_PARAMETERS)})\(""", re.VERBOSE
)
_INSTANTIATED = re.compile(
    r"[A-Z](?<=(?<![\w.])(?!\w*(?:Error|Exception|Warning|Outputs?\w*|Cache|Dict|Loss)\()[A-Z])\w*(?=\()"
)
# Lists and dicts: self.blocks = [ …, or of a name that stands for one: self.blocks = blocks
_CONTAINER = r"\s*(?::[^=\n]{0,80})?=\s*(?:\[|\{|(?P<tuple>\()|(?:list|dict|tuple|\w*[dD]ict)\()"
_KEPT_CONTAINER = re.compile(rf"{at_word('self')}\.(\w+){_CONTAINER}")
_KEPT_NAME = re.compile(rf"{at_word('self')}\.(\w+)\s*(?::[^=\n]{{0,80}})?=\s*(\w+)[ \t]*$", re.MULTILINE)
_NAMED_CONTAINER = re.compile(rf"\n\s*(\w+){_CONTAINER}")
# blocks.append(…), self.blocks[0] = …, blocks += …
_FILLED = re.compile(
    r"""\b((?:self\.)?\w+)
        (?:(?:\[[^\]\n]{0,80}\])?\.(?:append|extend|insert|update|setdefault)\(|\[[^\]\n]{1,80}\]\s*=(?!=)|\s*\+=)""",
    re.VERBOSE,
)
_INIT = re.compile(rf"{at_word('def')} __init__\(")
# self.mask(), cls.mask(), Net.mask(); and self(x)
_ASKED_FOR = re.compile(r"\.(\w+)")
_RUNS_ITSELF = re.compile(rf"{at_word('self')}\(")
_FIRST_METHOD = re.compile(r"\n[ \t]+(?:@|(?:async[ \t]+)?def\b)")
_CALLS_OWN = re.compile(rf"{at_word('self')}\.(\w+)\(")
_SUPER = re.compile(rf"{at_word('super')}\(.*?\)\.(\w+)")
# A line that leaves or gives something.
_LEAVING = re.compile(
    rf"\bself(?:\.\w+)+(?:\[.*\])?\s*=(?!=)|\bself\.(?:{_any_of(MODULE_MOVES)})\(|\breturn\b|{_FACTORY.pattern}"
)


@lru_cache(_WORDS_REMEMBERED)
def _always_begins(word: str) -> bool:
    return _BEGINS.search(word) is not None


_texts = Shelf[str, "Said"](_LETTERS)


def read(text: str) -> Said:
    """What a text says. Most of an editor's text is what it was a keystroke ago."""
    return _texts.get(text, len(text), lambda: _read(text))


def _read(text: str) -> Said:
    code = _DEVICE_ASKED.sub(".is_cuda", without_prose(text))
    while "() for " in code and (numbers := _NUMBERS.search(code)) is not None:
        code = code[: numbers.start()] + code[end_of(code, numbers) :]
    return Said(code)


class Said(Text):
    """What a definition says that has to do with findings."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self._leaves: dict[frozenset[str], str] = {}

    @cached_property
    def begins(self) -> bool:
        """Whether a finding can begin with it, wherever it is."""
        return (
            any(map(_always_begins, self.words))
            or any(_BEGINS_WHERE[word].search(self.code) for word in self.words & _BEGINS_WHERE.keys())
            or (self.has("Parameter") and any(map(self._is_derived, _PARAMETER.finditer(self.code))))
            or (self.has(*_REGISTERING) and any(map(self._may_repeat_layers, _REPEATED.finditer(self.code))))
            or self.changes_in_forward
        )

    @cached_property
    def begins_uncalled(self) -> bool:
        """The same where nobody calls it, so that nothing is known of what it is given."""
        return (
            any(map(self._begins_by_word, self.words))
            or any(
                _BEGINS_WHERE_UNCALLED[word].search(self._taken) for word in self.words & _BEGINS_WHERE_UNCALLED.keys()
            )
            or (self.has("device") and _KEEPS_DEVICE.search(self._outline) is not None)
            or (self.runs and self.has("partial") and _BOUND.search(self.code) is not None)
            or (_DEVICE_COMPARED.search(self.code) is not None and _DEVICE_NAMED.search(self.code) is not None)
            or any(map(self._may_be_in_vain, self.moves))
            or (self.has("cpu") and any(map(self._may_move_other, _CPU.finditer(self.code))))
            or self._may_freeze_module
            or (self.has("Parameter") and any(map(self._is_derived, _PARAMETER.finditer(self.code))))
            or (self.has(*_REGISTERING) and any(map(self._may_repeat_layers, _REPEATED.finditer(self.code))))
            or self.leaves_in_forward
        )

    def _begins_by_word(self, word: str) -> bool:
        """Whether a word begins a finding: not where it is only asked whether something is of that class."""
        if not _always_begins(word) or _NEEDS_MORE.search(word) is not None:
            return False
        return word in self._words_taken

    @cached_property
    def _words_taken(self) -> set[str]:
        return set(words_of(_ASKED_OR_IMPORTED.sub("", self.code)))

    @cached_property
    def _outline(self) -> str:
        return outline(self.code)

    @cached_property
    def _taken(self) -> str:
        """The code without texts that only something is compared with."""
        code = self.code
        if self.has("device_type", "autocast") and _KIND_AS_DEVICE.search(code) is None:
            code = _KIND.sub("", code)
        return _COMPARED.sub("", code)

    @cached_property
    def moves(self) -> list[re.Match[str]]:
        """The calls that move a tensor to what is told: x.to(device), x.type(kind)."""
        words = [word for word in ("to", "type") if word in self.words]
        return [found for word in words for found in _BEGINS_WHERE[word].finditer(self.code)]

    @property
    def loads(self) -> bool:
        """Whether it loads a checkpoint."""
        return self.has("load") and _BEGINS_WHERE["load"].search(self.code) is not None

    @cached_property
    def targets(self) -> set[str]:
        """The names by which it tells where to move something."""
        return {word for move in self.moves for word in words_of(outline(self.inside(move)))}

    def _may_be_in_vain(self, move: re.Match[str]) -> bool:
        """Whether something may be found about a move, be it that nobody knows where it goes."""
        target = _COMPARED.sub("", outline(self.inside(move)))
        return (
            _TOLD.search(target) is not None
            or _TOLD_BY_FUNCTION.search(target) is not None
            or not (self._set_to_text | self._set_to_other).isdisjoint(words_of(target))
            or (self.has("grad") and self.has("requires_grad", "requires_grad_"))
            or (self.has("Parameter") and move[0] in self.before_methods)
            or self._is_discarded(move)
            or self._may_move_other(move)
        )

    @cached_property
    def _set_to_text(self) -> set[str]:
        return set(_SET_TO_TEXT.findall(self.code))

    @cached_property
    def _set_to_other(self) -> set[str]:
        """The names of what may be something else than a tensor."""
        return {
            name.strip()
            for found in _SET_TO_OTHER.finditer(self.code)
            if found["function"] is None or self._may_give_other(found["function"])
            for name in found[1].split(",")
        }

    def _may_give_other(self, function: str) -> bool:
        """Whether a function, by its name, may be one that is defined here, and give a list or dict."""
        owner, _, name = function.rpartition(".")
        return not owner or _GIVES_OTHER.search(self.methods.get(name, "")) is not None

    def _may_move_other(self, move: re.Match[str]) -> bool:
        """Whether what is moved may be a list, a dict, or something else that cannot be."""
        before = self.code[max(0, move.start() - _LONGEST_LIST) : move.start()]
        if before.endswith(("}", "'", '"')):
            return True
        opened = _opening(before)
        if opened is not None:
            function = _ENDS_IN_NAME.search(before[:opened])
            if before.endswith("]"):
                return function is None and not before[:opened].endswith((")", "]"))
            return function is not None and (
                function[0].rpartition(".")[2] in ("numpy", "state_dict", "tolist", "parameters")
                or (
                    _OWN_FUNCTION.fullmatch(function[0]) is not None
                    and not before[: function.start()].endswith(".")
                    and self._may_give_other(function[0])
                )
            )
        name = _ENDS_IN_NAME.search(before)
        return name is not None and name[0].rpartition(".")[2] in self._set_to_other

    def _is_discarded(self, move: re.Match[str]) -> bool:
        """Whether a move is a statement of its own."""
        before = self.code[max(0, move.start() - _LONGEST_LIST) : move.start()]
        statement = _line_of(before)
        return statement is None or (_STATEMENT.fullmatch(statement) is not None and statement.strip() != "self")

    @property
    def _may_freeze_module(self) -> bool:
        """Whether ``requires_grad`` may be assigned to something that is no parameter."""
        if not self.has("requires_grad"):
            return False
        parameters = {word for found in _PARAMETERS_IN_TURN.findall(self.code) for word in words_of(found)}
        return not {*_FREEZES.findall(self.code)} <= parameters | _PARTS_OF_LAYERS

    @cached_property
    def is_of_cpu(self) -> bool:
        """Whether it makes tensors on the CPU, or brings them there: a finding begins where others are on a GPU."""
        return self.makes_tensors or (self.has("cpu", "Generator") and _TO_CPU.search(self._taken) is not None)

    def lets_meet(self, *, is_given: bool) -> bool:
        """Whether what it makes on the CPU may meet other tensors, in it or, where somebody ``is_given`` it, there."""
        if not self.is_of_cpu:
            return False
        if not self.is_class and not self.methods:
            return meetings.may_meet(self.code, in_init=False, is_given=is_given)
        first = _FIRST_METHOD.search(self.code)
        if Said(self.code[: first.start()] if first is not None else self.code).is_of_cpu:
            return True
        asked = {*_ASKED_FOR.findall(self.code), *(_FORWARDS if _RUNS_ITSELF.search(self.code) is not None else ())}
        built = self.reached_from(("__init__",))
        later = self.reached_from([name for name, method in self.methods.items() if method not in built])
        return any(
            meetings.may_meet(
                method, in_init=method in built and method not in later, is_given=is_given or name in asked
            )
            for name, method in self.methods.items()
            if Said(method).is_of_cpu
        )

    @cached_property
    def meets(self) -> bool:
        """The same where nobody calls it."""
        return self.lets_meet(is_given=False)

    @cached_property
    def gives_or_meets(self) -> bool:
        """The same where somebody uses it."""
        return self.lets_meet(is_given=True)

    @property
    def knows_of_gpu(self) -> bool:
        """Whether it is told that there is a GPU: it asks, or derives from a trainer that takes care of it."""
        return self.has("cuda") or _KNOWS_OF_GPU.search(self.code) is not None

    @cached_property
    def makes_tensors(self) -> bool:
        """Whether it makes a tensor that is neither told its device nor registered at once."""
        return any(map(self._is_kept_elsewhere, self.each(_FACTORY, _FACTORIES)))

    @cached_property
    def gives_tensors(self) -> bool:
        """Whether others may get tensors of a class that it made so: from its methods, or as an attribute."""
        return self.makes_tensors and any(
            name not in _INITIALISERS or _KEPT_TENSOR.search(method) is not None
            for name, method in self.methods.items()
            if Said(method).makes_tensors
        )

    @cached_property
    def tended(self) -> frozenset[str]:
        """The attributes of other objects after which it may look; ``*`` where they can be any."""
        if self.has("setattr") and _SETS.search(self.code) is not None:
            return _ANY
        return frozenset(_TENDS.findall(self.code) if _OF_OTHERS.search(self.code) is not None else ())

    def may_be_tended(self, names: frozenset[str]) -> bool:
        """Whether one of these can be an attribute of it."""
        return names is _ANY or not names.isdisjoint(attributes_of_self(self.code))

    @property
    def runs(self) -> bool:
        """Whether it has a forward."""
        return self.has(*_FORWARDS)

    @property
    def packs(self) -> bool:
        """Whether it tells that something is the lengths of sequences."""
        return self.has("pack_padded_sequence")

    @cached_property
    def places(self) -> bool:
        """Whether it tells something new which device to be on."""
        return self.has("device") and _PLACES.search(self.code) is not None

    @cached_property
    def goes_to_cuda(self) -> bool:
        """Whether a forward brings something to CUDA, wherever its module is."""
        return self.has("cuda") and any(map(_BEGINS_WHERE["cuda"].search, self.reached_from(_FORWARDS)))

    @cached_property
    def hides(self) -> bool:
        """Whether a forward may use modules that an instance was given, from a plain list or dict."""
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
        """Whether it is a tensor without dimensions, and nothing is made of it at once."""
        if _NUMBER_MADE.match(self.code, made.start()) is None:
            return False
        before = self.code[max(0, made.start() - _NEAR) : made.start()]
        after = self.code[end_of(self.code, made) :]
        return (after.startswith(".to(") or not after.startswith((".", "["))) and "stack(" not in before

    def _is_derived(self, parameter: re.Match[str]) -> bool:
        """Whether a Parameter is made of something that is there already, or something is made of it."""
        after = self.code[end_of(self.code, parameter) :].lstrip(" ")
        data = self.inside(parameter)
        return (_FACTORY.search(data) is None and _NEW_DATA.match(data) is None) or after.startswith(_OPERATORS)

    def _may_repeat_layers(self, times: re.Match[str]) -> bool:
        """Whether what a list has many times is a call, or was made by one."""
        items = self._before(times.start()) if times[0].startswith("]") else self.inside(times)
        return items is None or self._holds_made(items)

    def _keeps_made(self, container: re.Match[str]) -> bool:
        """Whether a list, dict or tuple, of which a match ends with the bracket, holds more than numbers."""
        items = self.inside(container)
        is_container = container["tuple"] is None or "," in outline(items)
        return is_container and self._holds_made(items)

    def _holds_made(self, items: str) -> bool:
        """Whether there is something among these that is more than a number."""
        return not _OF_NUMBERS.issuperset(_CALLED.findall(items)) or not self._made.isdisjoint(words_of(items))

    @cached_property
    def _made(self) -> set[str]:
        """The variables to which it assigns what a call made."""
        return set(_ASSIGNED_CALL.findall(self.code))

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
        words = words_of(before)
        return before.endswith((")", "]")) or (bool(words) and before.endswith(words[-1]) and not iskeyword(words[-1]))

    @cached_property
    def changes_in_forward(self) -> bool:
        """Whether a forward changes its module, makes a layer, or may use what only a plain list or dict has."""
        return self.runs and (any(map(_changes, self.reached_from(_FORWARDS))) or self._asks_plain_container)

    @cached_property
    def leaves_in_forward(self) -> bool:
        """Whether a forward leaves something for the next one, makes a layer, or uses what only a plain list has."""
        if not self.runs:
            return False
        reached = self.reached_from(_FORWARDS)
        return (
            any(_MAKES_LAYER.search(method) is not None for method in reached)
            or self._asks_plain_container
            or self._leaves_what_it_reads("".join(reached))
        )

    @staticmethod
    def _leaves_what_it_reads(code: str) -> bool:
        """Whether an attribute is both assigned and read: each ``self.x = …`` is one mention of it."""
        left = _LEAVES.findall(outline(code))
        return any(len(re.findall(rf"\.{name}\b", code)) > left.count(name) for name in {*left} - {""}) or "" in left

    @cached_property
    def made_in_forward(self) -> set[str]:
        """The classes of which a forward makes instances, by the names that it has for them."""
        reached = self.reached_from(_FORWARDS) if self.runs else ()
        return {name for each in reached for name in _INSTANTIATED.findall(each)}

    @cached_property
    def _asked_in_forward(self) -> set[str]:
        """The attributes of which a forward makes use."""
        return {name for each in self.reached_from(_FORWARDS) for name in attributes_of_self(each)}

    @property
    def _asks_plain_container(self) -> bool:
        """Whether a forward makes use of a list or dict of more than numbers, be it that it is filled later."""
        kept = [(f"self.{each[1]}", each) for each in _KEPT_CONTAINER.finditer(self.code) if self._is_asked(each[1])]
        names = {value for attribute, value in _KEPT_NAME.findall(self.code) if self._is_asked(attribute)}
        if names:
            kept += [(each[1], each) for each in _NAMED_CONTAINER.finditer(self.code) if each[1] in names]
        return any(self._keeps_made(each) or name in self._filled for name, each in kept)

    def _is_asked(self, name: str) -> bool:
        return name in self._asked_in_forward

    @cached_property
    def _filled(self) -> set[str]:
        """The lists and dicts into which it puts something."""
        return set(_FILLED.findall(self.code))

    @cached_property
    def _inherits(self) -> set[str]:
        """What a class may ask of those that it derives from."""
        return {"__init__", *attributes_of_self(self.code), *_SUPER.findall(self.code)}

    @cached_property
    def givers(self) -> set[str]:
        """The methods and attributes by which others may get tensors that a class made; but its forward."""
        makers = {name: method for name, method in self.methods.items() if Said(method).makes_tensors}
        kept = {name for method in makers.values() for name in _KEPT_TENSOR.findall(method)}
        return makers.keys() - _INITIALISERS - {*_FORWARDS} | kept

    @cached_property
    def runs_parts_aside(self) -> bool:
        """Whether a method that no forward calls, and no ``__init__``, runs what may be a module of its own."""
        known = {*self.reached_from((*_FORWARDS, *_INITIALISERS))}
        return any(
            not self.methods.keys() >= {*_CALLS_OWN.findall(method)}
            for method in self.methods.values()
            if method not in known
        )

    def asks(self, bases: Iterable[Said]) -> frozenset[str]:
        """The attributes for which a class asks, itself or in what it calls of those that it derives from."""
        bases, asked = [*bases], {*self._inherits} - {"__init__"}
        waiting = [*asked]
        while waiting:
            name = waiting.pop()
            new = {one for base in bases if name in base.methods for one in base.attributes_of(name)} - asked
            asked |= new
            waiting += new
        return frozenset(asked)

    def attributes_of(self, method: str) -> Iterable[str]:
        return [*attributes_of_self(self.methods[method]), *_SUPER.findall(self.methods[method])]

    def leaves_of(self, asked: frozenset[str]) -> str:
        """The lines in which the methods of a class leave or give what a class that derives from it asks for."""
        given = "\n".join(_left_by(self.methods[name]) for name in sorted(asked & self.methods.keys()))
        built = [line for method in self.reached_from(("__init__",)) for line in _left_by(method).split("\n")]
        left = [line for line in built if _is_asked_for(line, asked)]
        return "\n".join(filter(None, (*left, given)))

    def leaves_to(self, user: Said) -> str:
        """The lines in which methods of a class leave or give something to a class that derives from it."""
        known = frozenset(user._inherits & self.methods.keys())
        if known not in self._leaves:
            self._leaves[known] = "\n".join(filter(None, map(_left_by, self.reached_from(known))))
        return self._leaves[known]


def _is_asked_for(line: str, asked: frozenset[str]) -> bool:
    """Whether a line of ``__init__`` may leave one of these attributes."""
    left = attributes_of_self(line.partition("=")[0])
    return not asked.isdisjoint(left) if "=" in line and left else _LEAVING.search(line) is not None


@lru_cache(_METHODS_REMEMBERED)
def _left_by(method: str) -> str:
    """The lines of a method that leave or give something."""
    return "\n".join(line for line in method.split("\n") if _LEAVING.search(line) is not None)


def _opening(code: str) -> int | None:
    """Where the brackets were opened that the code ends with; None if it ends with none, or they are long."""
    depth = 0
    for position in range(len(code) - 1, -1, -1):
        depth += (code[position] in ")]}") - (code[position] in "([{")
        if depth <= 0:
            return position if position < len(code) - 1 else None
    return None


def _line_of(code: str) -> str | None:
    """The beginning of the statement that the code ends within, without what is in brackets; None if it is long."""
    depth = 0
    for position in range(len(code) - 1, -1, -1):
        depth += (code[position] in ")]}") - (code[position] in "([{")
        if depth < 0:
            return "("
        if not depth and code[position] == "\n" and not code[:position].rstrip().endswith(_GOES_ON):
            return outline(code[position + 1 :])
    return None


def _changes(method: str) -> bool:
    """Whether a method changes its module, or makes a layer."""
    return _MAKES.search(method) is not None or _CHANGES.search(outline(method)) is not None
