"""Random programs from a grammar: PyTorch code with arbitrary Python around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from .trees import tree_of

# A placeholder expands to an alternative of its rule; `<block>` is indented by one level more than its line.
PLACEHOLDER = re.compile(r"<(\w+)>")
# From this depth on, only the first alternatives of a rule are used, which are short.
DEEPEST = 5
SIMPLE = 3
INDENT = "    "

HEADER = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""

RULES: Mapping[str, Sequence[str]] = {
    "name": ("x", "y", "z", "net", "model", "opt", "loader", "items", "table", "f", "g", "A", "B", "device", "i"),
    "attribute": ("weight", "module", "fc", "items", "kept", "device", "data", "grad", "shape", "T", "forward", "x"),
    "number": ("0", "1", "2", "-1", "3.5", "1e999", "10**9", "0x1F", "True", "None", "2**70", "1j", "8_000_000_000"),
    "text": (
        '"cuda"', '"cpu"', '"cuda:1"', '"a"', 'b"a"', '"{:>9}"', '"{0.x}"', '"%5d"', '"%*d"', 'f"cuda:{<expr>}"',
        'f"{<expr>!r:>{<name>}}"', 'f"{<name>=}"', '"cu" "da"', 'r"\\d"', '"\\N{DASH}"', '"RANK"', '"x" * <number>',
    ),
    "expr": (
        "<name>", "<number>", "<text>", "<name>", "<name>", "device", "torch.zeros(<number>)", "<tensor>", "<tensor>",
        "<module>", "<call>", "<call>", "<call>", "<expr>.<attribute>", "<expr>[<key>]", "(<expr>, <expr>)",
        "[<expr>, <expr>]", "{<text>: <expr>, <expr>: <expr>}", "{<expr>, <expr>}", "(<expr> <operator> <expr>)",
        "(not <expr>)", "(-<expr>)", "(<expr> if <test> else <expr>)", "(<expr> and <expr> or <expr>)", "(<test>)",
        "[<expr> for <name> in <expr> if <test>]", "{<expr>: <expr> for <name>, <name> in <expr>}",
        "(<expr> for <name> in <expr>)", "(lambda *<name>, k=<expr>: <expr>)", "(<name> := <expr>)",
        "[*<expr>, <expr>]", "(*<expr>, *<expr>)", "{**<expr>, 'a': <expr>}", "(yield <expr>)", "(await <expr>)",
        "...", "<builtin>",
    ),
    "operator": ("+", "*", "-", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"),
    "test": (
        "<name>", "torch.cuda.is_available()", "torch.cuda.device_count() > 1", "<expr> == <expr>", "<expr> is None",
        "isinstance(<expr>, <expr>)", "<expr> in <expr>", "<expr> < <expr> <= <expr>", "hasattr(<name>, <text>)",
        "'RANK' in os.environ", "not <name>",
    ),
    "key": ("0", "-1", "<expr>", "<text>", ":", "<expr>:<expr>", "::-1", "..., <expr>", "*<name>, <expr>", "None"),
    "tensor": (
        "torch.randn(4, 4)", "torch.zeros(<number>, device=<expr>)", "<expr>.to(<expr>)", "<expr>.cuda()",
        "<expr>.to(<expr>, non_blocking=True)", "<expr>.cpu().numpy()", "torch.cat([<expr>, <expr>])",
        "<expr>.item()", "torch.stack(<expr>, <number>)", "<expr>.view(<number>, <number>)",
        "<expr>.detach().requires_grad_()", "torch.tensor(<expr>)", "nn.Parameter(<expr>)",
        "<expr>.size(<number>)", "<expr>.transpose(<number>, <number>)", "torch.load(<text>, map_location=<expr>)",
        "<expr>.chunk(<number>)", "<expr>.unsqueeze(<number>)",
    ),
    "module": (
        "nn.Linear(4, 4)", "nn.DataParallel(<expr>)", "nn.DataParallel(<expr>, device_ids=<expr>, dim=<number>)",
        "nn.Sequential(*<expr>)", "nn.ModuleList([<expr>, <expr>])", "DDP(<expr>, device_ids=[<expr>])", "A(<expr>)",
        "nn.CrossEntropyLoss()", "torch.compile(<expr>)", "<expr>.to(device)", "A()",
        "nn.ModuleDict({<text>: <expr>})", "torch.optim.SGD(<expr>.parameters(), lr=<number>)",
        "torch.optim.Adam(<expr>)", "nn.ParameterList(<expr>)",
        "DataLoader(TensorDataset(<expr>), batch_size=<number>, shuffle=<expr>)",
        "torch.nn.LSTM(4, 4, batch_first=True)",
    ),
    "call": (
        "<name>()", "<name>(<expr>)", "<expr>(<expr>)", "<name>(*<expr>, **<expr>)", "<name>.<method>(<expr>)",
        "<name>.<method>()", "<expr>.<method>(<expr>)", "super().<method>(<expr>)", "<text>.format(<expr>, k=<expr>)",
        "<text>.join(<expr>)", "<name>(<attribute>=<expr>)", "<text>.replace(<text>, <text>)",
        "self.<attribute>(<expr>)",
    ),
    "method": (
        "append", "extend", "update", "items", "values", "pop", "get", "insert", "setdefault", "copy", "keys",
        "split", "parameters", "state_dict", "load_state_dict", "zero_grad", "step", "backward", "add_module",
        "register_buffer", "register_forward_hook", "add_param_group", "train", "eval", "apply", "half", "forward",
        "modules", "children",
    ),
    "builtin": (
        "range(<number>)", "range(<number>, <number>, <number>)", "list(<expr>)", "tuple(<expr>)", "dict(a=<expr>)",
        "zip(<expr>, <expr>)", "enumerate(<expr>)", "map(<name>, <expr>)", "filter(<name>, <expr>)", "int(<expr>)",
        "str(<expr>)", "len(<expr>)", "sum(<expr>)", "getattr(<name>, <text>)", "setattr(<name>, <text>, <expr>)",
        "type(<expr>)", "next(iter(<expr>))", "sorted(<expr>, key=<name>)", "float(<expr>)", "print(<expr>)", "set()",
    ),
    "target": (
        "<name>", "<name>, <name>", "<name>.<attribute>", "<name>[<key>]", "(<name>, *<name>)", "self.<attribute>",
        "<name>.<attribute>.<attribute>", "[<name>, [<name>, <name>]]", "os.environ[<text>]",
    ),
    "small": (
        "pass", "<name> = <expr>", "<call>", "<target> = <expr>", "<target> = <target> = <expr>", "<name> += <expr>",
        "<name>.<attribute> *= <expr>", "<name>[<key>] -= <expr>", "<name>: <expr> = <expr>", "del <name>",
        "<tensor>", "<name>.append(<name>)", "<name> = (<name>, <name>)", "<name> = <name> + <name>",
        "global <name>", "return <expr>", "nonlocal <name>", "assert <test>, <expr>", "raise <expr> from <expr>",
        "return", "break", "continue", "<module>", "import <name>", "from . import <name> as <name>",
        "from <name> import *", "return <text>", "<name> = <name> * 2", "<name>.<attribute> = <name>",
        "yield <expr>", "<name> = <module>", "<name> = <tensor>", "loss.backward()", "<name>.to(device)",
        "opt.step()", "del <name>[<key>], <name>.<attribute>", "<name> %= <expr>",
    ),
    "statement": (
        "<small>", "<small>", "<small>", "<small>", "<small>; <small>", "<small>", "<small>",
        "if <test>:\n<block>", "if <test>:\n<block>\nelif <test>:\n<block>\nelse:\n<block>",
        "for <target> in <expr>:\n<block>", "for <name> in <expr>:\n<block>\nelse:\n<block>",
        "while <test>:\n<block>",
        "try:\n<block>\nexcept <name> as <name>:\n<block>\nelse:\n<block>\nfinally:\n<block>",
        "try:\n<block>\nfinally:\n<block>", "with <expr> as <target>, <expr>:\n<block>",
        "with torch.no_grad():\n<block>", "def <name>(<parameters>):\n<block>",
        "def <name>(<parameters>) -> <expr>:\n<block>", "<class>", "<class>",
        "async def <name>(<parameters>):\n<block>", "@<expr>\ndef <name>(self, <parameters>):\n<block>",
        "async for <name> in <expr>:\n<block>", "if __name__ == '__main__':\n<block>",
        "match <expr>:\n    case [<name>, *_]:\n<deeper>\n    case _:\n<deeper>", "class <name>(<name>):\n<block>",
    ),
    "class": (
        "class <name>(nn.Module):\n<init>\n    def forward(self, x, <parameters>):\n<deeper>",
        "class <name>(<expr>, metaclass=<name>):\n<block>",
        "class <name>(<name>, nn.Module):\n    def forward(self, *<name>):\n<deeper>\n<property>",
    ),
    "init": ("    def __init__(self, <parameters>):\n        super().__init__()\n<deeper>",),
    "property": ("    @property\n    def <attribute>(self):\n<deeper>",),
    "parameters": ("<name>_a", "<name>_a, <name>_b=<expr>", "*a, **k", "<name>_a=<expr>, *, k: <expr> = 0", "/, a"),
    "block": ("<statement>", "<statement>\n<statement>", "<statement>\n<statement>\n<statement>"),
}  # fmt: skip


class Grammar:
    """Generates programs and pieces of programs; a piece may be invalid Python."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def program(self) -> str:
        """A program of statements that are each valid Python."""
        statements: list[str] = []
        for _ in range(self._random.randint(6, 30)):
            made = self.expand("statement")
            if tree_of(made) is not None:
                statements.append(made)
        return HEADER + "\n".join(statements) + "\n"

    def expand(self, rule: str, depth: int = 0) -> str:
        """A random expansion of a rule."""
        alternatives = RULES[rule] if depth < DEEPEST else RULES[rule][:SIMPLE]
        made = self._random.choice(alternatives)
        return PLACEHOLDER.sub(lambda found: self._filled(found[1], depth + 1), made)

    def _filled(self, rule: str, depth: int) -> str:
        if rule == "block":
            return _indented(self.expand(rule, depth), 1)
        return _indented(self.expand("block", depth), 2) if rule == "deeper" else self.expand(rule, depth)


def _indented(text: str, levels: int) -> str:
    return "\n".join(INDENT * levels + line for line in text.split("\n"))
