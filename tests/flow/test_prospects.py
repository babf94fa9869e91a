"""Definitions that triage skips have no findings, and no finding is lost."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from textwrap import dedent, indent

import pytest
from growth import grows_faster_than_its_size

from placement_lint.checking.checker import Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Finding
from placement_lint.flow.domain.values import Class, Function
from placement_lint.flow.driver import entry_points
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.triage.definition_facts import read
from placement_lint.flow.triage.entry_filter import Prospects
from placement_lint.flow.triage.predicates import (
    externally_written,
    gives_or_meets,
    gives_tensors,
    hides,
    may_begin,
    may_begin_in_entry,
    meets,
    meets_on_gpu,
    refuted_by,
    tells_own_places,
)
from placement_lint.project.files import Selection
from placement_lint.report.results import Job
from placement_lint.run.engine import check_files

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
PROJECTS = sorted((FIXTURES / "projects").iterdir())
FOLDERS = [*sorted(path for path in FIXTURES.iterdir() if path.name != "projects"), *PROJECTS]


def findings(folder: Path) -> Collection[Finding]:
    """The findings without their fixes: these are safe only where nothing else may lead there, analysed or not."""
    found = check_files(Selection(sorted(folder.rglob("*.py"))), Job(Settings(root=folder)), jobs=1).findings
    return [replace(finding, fix=None) for finding in found]


# Ways to move a program's top-level statements into an uncalled definition, or to omit them.
UNCALLED = {
    "function": "def main():\n{body}\n",
    "method": "class Program:\n    def run(self):\n{body}\n",
    "nowhere": "",
}


def uncalled_copy(folder: Path, copy: Path, form: str) -> Path:
    """A copy of programs, with their definitions first and their statements in an uncalled definition."""
    shutil.copytree(folder, copy)
    for path in copy.rglob("*.py"):
        path.write_text(with_body_uncalled(path.read_text(), form))
    return copy


def with_body_uncalled(text: str, form: str) -> str:
    definitions, body = [], []
    lines = text.splitlines()
    for node in ast.parse(text).body:
        is_definition = isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))
        decorators = getattr(node, "decorator_list", [])
        first = min(each.lineno for each in (node, *decorators))
        (definitions if is_definition else body).append("\n".join(lines[first - 1 : node.end_lineno]))
    margin = " " * (4 * form.count(":") or 4)
    return "\n".join((*definitions, form.format(body=indent("\n".join(body), margin)) if body else ""))


def look_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Disable triage: parse every file and analyse every definition."""
    patch.setattr(Reading, "may_tell", lambda *_: True)
    patch.setattr(Prospects, "promising", lambda *_: True)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_finding_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    chosen = findings(folder)
    look_everywhere(monkeypatch)
    assert findings(folder) == chosen, "a finding begins with something that no row of BEGINNINGS in predicates.py has"


@pytest.mark.parametrize("form", UNCALLED.values(), ids=UNCALLED)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_finding_is_lost_where_nobody_calls_it(
    folder: Path, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_no_finding_is_lost(uncalled_copy(folder, tmp_path / folder.name, form), monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x.to(d)",
        "def f(x): return x.type(kind)",
        "def f(): os.environ['CUDA_VISIBLE_DEVICES'] = '1'",
        "def f(): os.environ.setdefault('CUDA_VISIBLE_DEVICES', '1')",
        "def f(x): dist.all_reduce(x)",
        "def f(data): return Sampler(data)",
        "def f(x): x.cuda()",
        "def f(x): return g(x, device='cuda:1')",
        "def f(m): return nn.DataParallel(m)",
        "def f(m): return Adam(m, optimizer)",
        "def f(m): m.requires_grad = False",
        "def f(a, b): return a.device == b.device",
        "def f(m): return torch.save(m.state_dict(), path)",
        "def f(): return nn.Sequential(*[Block(3)] * 2)",
        "def f(k): return nn.Sequential(*[\n    Block(k[0], (1, 2))\n] * 2)",
        "def f():\n    layer = nn.Linear(3, 3)\n    return nn.ModuleList(2 * [layer])",
        "class M:\n    def __init__(self):\n        self.w = nn.Parameter(other.weight)",
        "class M:\n    def __init__(self):\n        self.w = nn.Parameter(torch.zeros(3)) * 2",
        "def f(self, a):\n    if a: self.w = nn.Parameter(zeros(3))\n    self.w = nn.Parameter(zeros(2))",
        "class M:\n    def forward(self, x):\n        self.seen += 1",
        """
        class M:
            def forward(self, x):
                return self.step(x)

            def step(self, x):
                self.kept.append(x)
        """,
        "class M:\n    def forward(self, x):\n        return nn.Linear(3, 3)(x)",
        "class M:\n    def forward(self, x):\n        self.state, y = self.cell(x)",
        """
        class M:
            def forward(self, x):
                def inner(y):
                    return y

                self.seen: int = inner(x)
        """,
        """
        class M:
            def __init__(self, count):
                layers = []
                for _ in range(count):
                    layers.append(nn.Linear(3, 3))
                self.layers = layers

            def forward(self, x):
                return self.layers[0](x)
        """,
        """
        class M:
            def __init__(self):
                self.layers = [make(n) for n in range(3)]

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
        """,
    ],
)
def test_a_finding_may_begin_with(text: str) -> None:
    assert may_begin(read(dedent(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x + torch.randn(3)",
        "def f(x): return x + randn(3)",
        "def f(x):\n    z = torch.tensor(\n        [len(x)]\n    )",
        "def f(x): return x.cpu() + 1",
        "def f(x): return torch.ones_like(x, device='cpu')",
    ],
)
def test_tensors_are_on_the_cpu(text: str) -> None:
    assert read(text).is_of_cpu


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return torch.zeros(3, device=x.device, dtype=x.dtype)",
        "def f(n, **factory): return torch.zeros(n, **factory)",
        "def f(rate, n): return [x.item() for x in torch.linspace(0, rate, n)]",
        "class M:\n    def __init__(self):\n        self.register_buffer('w', torch.zeros(3))",
        "def f(x): return np.zeros(3) + tf.ones(4) + random.randint(3)",
    ],
)
def test_none_are_made_on_the_cpu(text: str) -> None:
    assert not read(text).is_of_cpu


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x.view(3).sum()",
        "def f(m): return m.module.weight",
        "def f(m): m.weight.requires_grad_(False)",
        "def f(parser, x): parser.set_defaults(run=pack_features(x, target_device))",
        "def f(x):\n    '''Moves nothing to CUDA.'''\n    return x  # .cuda() is for others",
        "def f(x): return x.reshape('#', 3)",
        "def f(x, n): return [x[i] * 2 for i in range(n)]",
        "def f(n): return nn.Sequential(*make([0.1] * n))",
        "def f(x, i): return nn.Sequential(x[g(i)] * 2)",
        "def f(n): return nn.Sequential(make([int(math.sqrt(n))] * 2))",
        "class M:\n    def __init__(self):\n        self.w = nn.Parameter(torch.zeros(3))",
        "def f(self, a):\n    if a: self.w = nn.Parameter(zeros(3))\n    else: self.w = nn.Parameter(ones(3))",
        "class M:\n    def __init__(self):\n        self.seen = 0",
        "def f(x, y): return x.to(y.device, torch.float32)",
        "def f(x, n): return x.to(dtype=n).to(x.dtype)",
        "def f(x): return x.shape if x.device.type == 'cuda' else 0",
        "def f(x, y): return x.type(y.dtype) + x.type(torch.float32)",
        "def f(x): return x if os.environ.get('FORK_LAST') else fork_feat(x)",
        "def f(): return 'CI' in os.environ or os.environ['HOME']",
        "class M:\n    def __init__(self, dist):\n        self.dist = dist\n        self.down_sampler = Resampler()",
        "def f(p): return p.grad if p.requires_grad else None",
        "def f(n): return nn.Sequential(*[Block(i) for i in range(n)])",
        "class Lamb(torch.optim.Optimizer):\n    def step(self):\n        pass",
        "class M:\n    def forward(self, x):\n        return pool(x, self.size, stride=self.stride)",
        "class M:\n    def forward(self, x):\n        return nn.ReLU()(x) if self.a == x else x",
        "class M:\n    def forward(self, x):\n        self.fused = True\n        return x",
        "class M:\n    def __init__(self, n):\n        self.s = (n, 2)\n    def forward(self, x): return self.s",
        """
        class M:
            def __init__(self, n):
                self.act = (
                    nn.ReLU() if n else None
                )

            def forward(self, x):
                return self.act(x)
        """,
        """
        class M:
            def __init__(self, n):
                n = int(n * 2)
                s = to_2tuple(n)
                self.sizes = [n, s]

            def forward(self, x):
                return x.split(self.sizes)
        """,
        """
        class M:
            def reset(self, classes):
                self.classes = classes

            def forward(self, x):
                return x
        """,
        """
        class M:
            def __init__(self):
                self.names = []

            def forward(self, x):
                return self.layer(x)
        """,
    ],
)
def test_no_finding_begins_with(text: str) -> None:
    assert not may_begin(read(dedent(text)))


@pytest.mark.parametrize(
    "text_of",
    [
        lambda n: f"def f(): return Sequential({'[' * n}{']*2' * n})",
        lambda n: f"def f(): return Sequential({'[a] * 2, ' * n})",
        lambda n: f"class M:\n    def forward(self, x):\n        return {'self.a.b, ' * n}",
        lambda n: f"class M:\n    def forward(self, x):\n        return self{'.a' * 10 * n}",
        lambda n: f"class M:\n    def forward(self, x):\n        return [{'self.a: b.device, ' * n}]",
        lambda n: f"class M:\n    def forward(self, x):\n        {'self.a = b; ' * n}",
        lambda n: f"class M:\n    def __init__(self):\n        {'self.a = b; ' * n}c = torch.zeros(3)",
        lambda n: f"class M:\n    def __init__(self):\n        self.font = '{'a' * 20 * n}'",
        lambda n: f"def f(x, d):\n    return [{'x.to(d), ' * n}]",
        lambda n: f"def f(x, d):\n    return {'x.to(' * n}d{')' * n}",
        lambda n: f"def f(x):\n    {'a = ' * n}torch.zeros(3)",
        lambda n: f"def f(x):\n    {'a, ' * n}b = torch.zeros(3)",
        lambda n: "def f(x):\n    a0 = torch.zeros(3)\n" + "".join(f"    a{k + 1} = a{k}\n" for k in range(n)),
        lambda n: f"def f(x):\n    {'for a in b: ' * n}pass",
        lambda n: f"def f(x):\n    x.requires_grad = {'[a in b for a in b], ' * n}",
    ],
    ids=[
        *("nested", "repeated", "attributes", "chained", "annotated", "assigned", "made", "data"),
        *("moves", "nested moves", "made once", "made for many", "made again", "loops", "comprehensions"),
    ],
)
def test_long_lines_are_read_in_time(text_of: Callable[[int], str]) -> None:
    assert not grows_faster_than_its_size(read_all, text_of, 1_000)


def read_all(text: str) -> None:
    facts = read(text)
    assert [may_begin(facts), may_begin_in_entry(facts), meets(facts), gives_or_meets(facts), gives_tensors(facts)]
    assert [hides(facts), externally_written(facts), [*facts.leaves(facts.requests)]]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x, d): x.to(d)",
        "def f(x, d):\n    if x: x.view(-1).to(d)",
        "def f(x, d):\n    torch.cat(\n        [x, x]\n    ).to(d)",
        "def f(d):\n    batch = {'x': 3}\n    return batch.to(d)",
        "def f(d):\n    batch = collate()\n    return batch.to(d)",
        "def f(x): return x.numpy().to(d)",
        "def f(x): return x.to('mps')",
        "def f(x): return x.to(get_device_of(x))",
        "def f(x):\n    device = 0\n    return x.to(device)",
        "def f(x, d='mps'): return x.to(dtype=next(x).dtype, device=d)",
        "def f(x, d='cpu'):\n    d = place()\n    return x.to(device=d)",
        "def f(d, batch='cpu'): return batch.to(d)",
        "def f(x, y):\n    x = [y]\n    if isinstance(y, torch.Tensor):\n        x = x.cpu()\n    return x",
        "def f(x):\n    x = [x]\n    if isinstance(x, torch.Tensor): print(x)\n    return x.cpu()",
        "def f(x):\n    x = [x]\n    if isinstance(x, (list, torch.Tensor)): return x.cpu()",
        "def f(self, d, names=[]): return names.to(d)",
        "def f(x):\n    for kind in ('cuda', 'cpu'):\n        x = x.to(kind)",
        "def f(x): return torch.cuda.set_device(x)",
        "def f(x): return x.device == 'mps'",
        "def f(m): m.layer.requires_grad = False",
        "def f(m): get(m).requires_grad = False",
        "class M:\n    def __init__(self, device):\n        self.w = nn.Parameter(torch.zeros(3)).to(device)",
        "class M:\n    def __init__(self, x):\n        self.device = x.device",
        """
        class M:
            def forward(self, x):
                if self.seen is None:
                    self.seen = x
                return self.seen
        """,
        """
        class M:
            def __init__(self):
                self.run = partial(multiply, table=self.table)

            def forward(self, x):
                return self.run(x)
        """,
    ],
)
def test_a_finding_may_begin_where_nobody_calls(text: str) -> None:
    assert may_begin_in_entry(read(dedent(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(x, d): return x.to(d)",
        "def f(x, d):\n    x = x.to(d, non_blocking=True)",
        "def f(x, d):\n    return g(\n        x,\n        x.to(d),\n    )",
        "def f(self, d):\n    self.to(d)",
        "def f(x, kind): return x.type(kind)",
        "def f(x): return 'cuda' in x.device.type or x.device.type in ('xpu', 'npu')",
        "def f(m): return isinstance(m, nn.DataParallel)",
        "class M:\n    def __init__(self, device):\n        self.device = device",
        "class M:\n    def __init__(self, x):\n        self.w = nn.Parameter(torch.log(x))",
        "class M:\n    def __init__(self, x):\n        self.w = nn.Parameter(torch.normal(0, 1, (3,)))",
        "class M:\n    def forward(self, x):\n        self.seen = x\n        return x",
        "def f(\n    x: Any,\n    d: str = 'cpu',\n):\n    return x.to(d)",
        "def f(x):\n    if isinstance(x, torch.Tensor):\n        x = x.cpu().tolist()\n    return x",
        "def f(x, d):\n    x = [x]\n    if isinstance(x, Tensor): return x.to(d)",
        "def f(x, m):\n    dtype = 'half'\n    return x.to(dtype=next(m.parameters()).dtype)",
        "def f(self, names=[]): return self.to(names[0].device)",
        """
        class M:
            def forward(self, x):
                self.kept.append(x)
                return sum(p.sum() for p in self.parameters())
        """,
    ],
)
def test_no_finding_begins_where_nobody_calls(text: str) -> None:
    assert not may_begin_in_entry(read(dedent(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x + torch.ones(3)",
        "def f(x): return torch.cat([x, torch.ones(3)])",
        "def f(x):\n    total = torch.zeros(3)\n    total += x",
        "def f(x): return g(x, torch.ones(3))",
        "def f(x):\n    mask = torch.ones(3)\n    return x * torch.zeros_like(mask)",
        "def f(x):\n    mask = torch.ones(3)\n    return x * torch.zeros(3, device=mask.device)",
        "def f(x): return torch.ones(3)[x]",
        "def f(x): return torch.arange(3).type(x.dtype) * x",
        "def f(x): return torch.arange(3) * x.int()",
        "class M:\n    def __init__(self):\n        self.rows[0] = torch.ones(3)",
        "def f(x): x.cpu()",
        "def f(x): return torch.cat([torch.tensor([]), x])",
        "def f(x):\n    def g():\n        return torch.ones(3)\n    return x * g()",
        "class M:\n    def __init__(self):\n        self.table = torch.ones(3)",
        "class M:\n    def __init__(self):\n        table = torch.ones(3)\n        self.rows = Rows(table * 2)",
        "class M:\n    def mask(self): return torch.ones(3)\n    def forward(self, x): return x * self.mask()",
        """
        class M:
            def forward(self, x):
                seen = torch.ones(3)
                self.register_buffer("seen", seen)
                return x * self.seen
        """,
    ],
)
def test_tensors_on_the_cpu_may_meet_others(text: str) -> None:
    assert meets(read(dedent(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x[torch.arange(3)]",
        "def f(x): return x[:, torch.arange(3)] + torch.arange(3).view(1, -1).to(x.device)",
        "def f(x): return torch.arange(3)",
        "def f(x): return x if x.shape == torch.ones(3).shape else x.cpu().numpy()",
        "def f(x): x.copy_(torch.ones(3))",
        "def f(x):\n    rows = torch.arange(3).long()\n    return x[rows] * len(rows)",
        "def f(x):\n    for row in torch.arange(3):\n        x = x * row.item()",
        "class M:\n    def __init__(self):\n        self.register_buffer('table', torch.ones(3) / 2)",
        """
        class M:
            def __init__(self):
                table = torch.ones(3)
                self.w = nn.Parameter(torch.log(table))
        """,
        "class M:\n    def mask(self): return torch.ones(3)\n    def forward(self, x): return x",
        "class M:\n    def __init__(self):\n        self.layer.bias.data[0] = torch.ones(3)",
    ],
)
def test_tensors_on_the_cpu_meet_no_others(text: str) -> None:
    assert not meets(read(dedent(text)))


MODULE = """
class M(nn.Module):
    def mask(self, x): return x * torch.ones(3)
    def sample(self): return self.layer(torch.randn(3)){more}
    def forward(self, x): return x * {forward}
"""


@pytest.mark.parametrize(
    ("forward", "more"), [("self.mask(x)", ""), ("M.mask(self, x)", ""), ("2", " * torch.ones(3, device='mps')")]
)
def test_a_module_may_meet_tensors_in_its_forward_or_where_a_gpu_is_named(forward: str, more: str) -> None:
    facts = read(MODULE.format(forward=forward, more=more))
    assert meets_on_gpu(facts, is_module=True)


def test_a_module_meets_none_in_what_no_forward_runs() -> None:
    facts = read(MODULE.format(forward="2", more=""))
    assert meets(facts)
    assert not meets_on_gpu(facts, is_module=True)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x.to(place())",
        "def f(x, d):\n    d = place()\n    return x.to(d)",
        "def f(x): return torch.zeros(3, device=DEVICE)",
        "def f(x, d='mps'): return torch.zeros(3, device=d)",
        "def f(x):\n    for n in (0, 1): x = x.to(n)",
    ],
)
def test_it_says_itself_where_something_is_to_be(text: str) -> None:
    assert tells_own_places(read(text))


@pytest.mark.parametrize("text", ["def f(x, d): return x.to(d)", "def f(x, *, d): return torch.zeros(3, device=d)"])
def test_who_calls_it_says_where_something_is_to_be(text: str) -> None:
    assert not tells_own_places(read(text))


def test_what_is_only_asked_for_is_not_used() -> None:
    text = """
    def f(self, x: A[B, "C"] | None = D(), *more: E, y: F=g(3)) -> H:
        return isinstance(x, (I, J)) and K(x)
    """
    assert {*"ABCDEFGHIJK"} & read(dedent(text)).used == {*"DK"}


def test_a_class_inherits_what_it_asks_for() -> None:
    base = read(
        "class A:\n    def __init__(self):\n        self.a = x.cuda()\n        self.b, self.c = torch.ones(3), y.cpu()"
    )
    user = read("class B(A):\n    def forward(self, x): return self.a + x")
    assert [*map(ast.unparse, base.leaves(user.requests))] == ["self.a = x.cuda()"]


@pytest.mark.parametrize("line", ["net.table = x", "self.net[0].table = x", "setattr(net, name, x)"])
def test_attributes_of_others_are_looked_after(line: str) -> None:
    written = externally_written(read(f"def f(self, net, name, x):\n    {line}"))
    module = read("class M:\n    def forward(self, x): return self.table(x).cuda()")
    assert written
    assert refuted_by(written)(module, True)


@pytest.mark.parametrize("line", ["self.table = x", "net.table == x", "table = net.x", "setattr(self, name, x)"])
def test_these_are_not(line: str) -> None:
    assert not externally_written(read(f"def f(self, net, name, x):\n    {line}"))


def test_attributes_that_a_class_has_not_are_not_looked_after_there() -> None:
    written = externally_written(read("def f(self, config, x):\n    config.width = x"))
    assert not refuted_by(written)(read("class M:\n    def forward(self, x): return self.table(x).cuda()"), True)


@pytest.mark.parametrize(
    "methods",
    [
        "def forward(self, x): return torch.arange(3)",
        "def mask(self): return torch.zeros(3)",
        "def __init__(self): self.table = torch.zeros(3)",
    ],
)
def test_a_class_gives_tensors(methods: str) -> None:
    assert gives_tensors(read(f"class M:\n    {methods}\n"))


@pytest.mark.parametrize(
    "methods",
    [
        "def __init__(self): self.register_buffer('table', torch.zeros(3))",
        "def __init__(self): self.scale = nn.Parameter(value * torch.ones(3))",
        "def __init__(self):\n        rates = torch.linspace(0, 1, 3)\n        self.steps = [Step(r) for r in rates]",
        "def reset_parameters(self): self.weight.copy_(torch.eye(3))",
    ],
)
def test_a_class_keeps_what_it_makes(methods: str) -> None:
    assert not gives_tensors(read(f"class M:\n    {methods}\n"))


def looked_at(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The analysed methods of each class."""
    looked: dict[str, list[str]] = {}
    look_at_class = entry_points._look_at_class

    def note(machine: Machine, cls: Class, *methods: Function) -> None:
        looked[cls.name] = [method.name for method in methods]
        look_at_class(machine, cls, *methods)

    monkeypatch.setattr(entry_points, "_look_at_class", note)
    (folder / "model.py").write_text(dedent(text))
    findings(folder)
    return looked


def test_most_definitions_of_a_model_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = """
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(width, width)

        def forward(self, x):
            return self.layer(x) + x

    class Masked(Block):
        def forward(self, x):
            return super().forward(x).cuda()

    class Rows:
        def __init__(self, x):
            self.x = x

    class Rowwise(Block):
        def forward(self, x):
            return Rows(super().forward(x))

    class Layerwise(Block):
        def forward(self, x):
            return Block(len(x))(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block(8) for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x
    """
    assert [*looked_at(model, tmp_path, monkeypatch)] == ["Masked", "Layerwise"]


USER = """
import torch
from torch import nn

def rows(n):
    return torch.arange(n)

class Base(nn.Module):
    def forward(self, x):
        return x * self.scale()

class Net({base}):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        {init}

    def forward(self, x):
        return {forward}

    def scale(self):
        return {scale}

    def pruned(self, x):
        return self.layer.weight[rows(3)]{pruned}
"""
UNUSED = {"base": "nn.Module", "init": "", "forward": "x", "scale": "1", "pruned": ""}


@pytest.mark.parametrize(
    "used",
    [
        {"forward": "x * rows(3)"},
        {"forward": "x * self.scale()", "scale": "rows(3)"},
        {"forward": "super().forward(x)", "base": "Base", "scale": "rows(3)"},
        {"forward": "getattr(self, 'scale')()", "scale": "rows(3)"},
        {"init": "self.rows = rows(3)", "forward": "self.rows * x"},
    ],
)
def test_a_forward_may_meet_what_a_function_gives(
    used: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "forward" in looked_at(USER.format_map(UNUSED | used), tmp_path, monkeypatch)["Net"]


def test_all_methods_are_looked_at_where_a_gpu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = USER.format_map(UNUSED | {"init": "self.rows = rows(3)", "pruned": ".to('cuda:0') * self.rows"})
    assert looked_at(text, tmp_path, monkeypatch)["Net"] == ["__init__", "forward", "scale", "pruned"]


def test_what_no_forward_runs_is_not_looked_at_for_what_a_function_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Net" not in looked_at(USER.format_map(UNUSED), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("imported", "looked"),
    [
        ("from accelerate import State as Part", False),
        ("from torch.nn import Linear as Part", True),
        ("from parts import Part", True),
        ("from torch import nn\nPart = nn.Linear", True),
        ("class Part: pass", False),
    ],
)
def test_a_forward_may_make_modules(
    imported: str, looked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts.py").write_text("from torch import nn\n\nclass Part(nn.Linear):\n    pass\n")
    text = f"{imported}\nfrom torch.nn import Module\n\nclass Net(Module):\n    def forward(self, x):\n        "
    assert ("Net" in looked_at(f"{text}return Part(3, 3)(x)\n", tmp_path, monkeypatch)) == looked
