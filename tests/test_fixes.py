"""--fix improves files, changes nothing else in them, and never leaves a file partially written."""

from __future__ import annotations

import codecs
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest

from placement_lint.checking.checker import Checked, Job
from placement_lint.cli import main
from placement_lint.finding import Applicability, Edit, Finding, Fix, Range, Severity
from placement_lint.fix import fixes
from placement_lint.fix.fixes import Fixer
from placement_lint.rewriting import on_device
from placement_lint.source.edits import NotEditable, edited
from placement_lint.source.wording import source_text

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def put(line: int, column: int, end_column: int, text: str, cell: int | None = None) -> Edit:
    return Edit(Range(line, column, line, end_column), text, cell)


@pytest.mark.parametrize(
    ("move", "replaced"),
    [
        ("x.cuda()", {"x.cuda()": "x.to(y.device)"}),
        ("x.cuda(0)", {"cuda": "to", "0": "y.device"}),
        ("x.cuda(non_blocking=True)", {"cuda": "to", "non_blocking=True": "y.device, non_blocking=True"}),
        ("x.to(memory_format=f)", {}),
        ("x.to(*where)", {}),
    ],
)
def test_a_move_to_another_device_keeps_its_options(move: str, replaced: dict[str, str]) -> None:
    replacements = on_device(cst.parse_expression(move), "y.device")
    assert {source_text(node): text for node, text in replacements} == replaced


class TestEdits:
    @pytest.mark.parametrize(
        ("data", "after"),
        [
            (b"import x\nbad()\n", b"import x\ngood()\n"),
            (b"import x\r\nbad()\r\n", b"import x\r\ngood()\r\n"),
            (b"import x\rbad()\r", b"import x\rgood()\r"),
            (b"import x\nbad()", b"import x\ngood()"),
            (codecs.BOM_UTF8 + b"import x\nbad()\n", codecs.BOM_UTF8 + b"import x\ngood()\n"),
            (b"# coding: latin-1 \xe9\nbad()  # \xe9\n", b"# coding: latin-1 \xe9\ngood()  # \xe9\n"),
            ("'𝄞é'\nbad()\n".encode(), "'𝄞é'\ngood()\n".encode()),
        ],
    )
    def test_all_else_stays(self, data: bytes, after: bytes) -> None:
        assert edited(data, [put(2, 1, 4, "good")]) == after

    def test_new_lines_end_as_the_others_do(self) -> None:
        assert edited(b"a\r\nb\r\n", [put(2, 1, 2, "x\ny")]) == b"a\r\nx\r\ny\r\n"

    def test_several_in_any_order(self) -> None:
        edits = [put(1, 1, 2, "one"), put(1, 9, 10, "three"), put(1, 5, 6, "two")]
        assert edited(b"a = b = c\n", edits) == b"one = two = three\n"

    def test_what_the_encoding_cannot_say(self) -> None:
        with pytest.raises(NotEditable):
            edited(b"# coding: latin-1\nx\n", [put(2, 1, 2, "日本")])

    @pytest.mark.parametrize(("indent", "escaped"), [(1, False), (1, True), (4, False), (None, True), ("\t", False)])
    @pytest.mark.parametrize("end", ["\n", ""])
    @pytest.mark.parametrize("source", ["a = 'é'\nbad()\n", ["a = 'é'\n", "bad()"]])
    def test_a_notebook_keeps_everything_else(
        self, indent: int | str | None, escaped: bool, end: str, source: str | list[str]
    ) -> None:
        content = {
            "cells": [
                {"cell_type": "markdown", "source": "bad()"},
                {"cell_type": "code", "source": source, "outputs": [{"data": "é 1.0"}], "execution_count": 7},
            ],
            "metadata": {"b": 1, "a": [0.5, None]},
        }
        before = (json.dumps(content, indent=indent, ensure_ascii=escaped) + end).encode()
        after = edited(before, [put(2, 1, 4, "good", cell=2)])
        assert after == before.replace(b"bad()", b"good()").replace(b"good()", b"bad()", 1)

    def test_a_notebook_of_odd_layout_is_left_alone(self) -> None:
        with pytest.raises(NotEditable):
            edited(b'{"cells":  [{"cell_type": "code", "source": "x"}]}', [put(1, 1, 2, "y", cell=1)])


@pytest.mark.usefixtures("fake_rules")
class TestFixing:
    TEXT = "import torch\nbad(bad(1)); worse()  # why\n"

    def test_safe_fixes(self, write: Write, capsys: Capture) -> None:
        file = write("a.py", self.TEXT)
        assert main(["check", "--fix", "--format", "concise"]) == 1
        assert file.read_text() == self.TEXT.replace("bad", "good")
        out = capsys.readouterr().out.splitlines()
        assert out[0].startswith("a.py:2:16: DPL302")
        assert out[1] == "1 fixable with `--fix --unsafe-fixes`"
        assert out[2].startswith("1 file checked, 1 finding (1 warning), 2 fixed in ")

    def test_unsafe_fixes(self, write: Write, capsys: Capture) -> None:
        file = write("a.py", self.TEXT)
        assert main(["check", "--fix", "--unsafe-fixes", "--show-fixes"]) == 0
        assert file.read_text() == self.TEXT.replace("bad", "good").replace("worse", "good")
        said = capsys.readouterr().err
        assert "- a.py:\n    2 × DPL301 (bad-call)\n    1 × DPL302 (worse-call)" in said
        before = file.stat().st_mtime_ns
        assert main(["check", "--fix", "--unsafe-fixes"]) == 0
        assert file.stat().st_mtime_ns == before

    def test_a_diff_changes_nothing(self, write: Write, capsys: Capture) -> None:
        file = write("a.py", self.TEXT)
        assert main(["check", "--diff"]) == 1
        captured = capsys.readouterr()
        assert captured.out.splitlines() == [
            "--- a.py",
            "+++ a.py",
            "@@ -1,2 +1,2 @@",
            " import torch",
            "-bad(bad(1)); worse()  # why",
            "+good(good(1)); worse()  # why",
        ]
        assert "would fix 2 of 3 findings" in captured.err
        assert file.read_text() == self.TEXT
        write("a.py", "import torch\n")
        assert main(["check", "--diff"]) == 0

    def test_a_diff_is_one_that_can_be_applied(self, write: Write, project: Path, capsysbinary) -> None:
        file = write("a.py", b"import torch\r\nbad()")
        main(["check", "--diff"])
        (project / "fix.diff").write_bytes(capsysbinary.readouterr().out)
        subprocess.run(["git", "apply", "-p0", "fix.diff"], check=True)
        assert file.read_bytes() == b"import torch\r\ngood()"

    def test_standard_input_is_fixed_on_standard_output(
        self, project: Path, capsysbinary: pytest.CaptureFixture[bytes], stdin: Callable[[bytes], None]
    ) -> None:
        stdin(b"import torch\r\nbad()\r\n")
        assert main(["check", "-", "--fix"]) == 0
        assert capsysbinary.readouterr().out == b"import torch\r\ngood()\r\n"
        stdin(b"x = 1")
        assert main(["check", "-", "--fix"]) == 0
        assert capsysbinary.readouterr().out == b"x = 1"

    def test_the_json_counts_them(self, write: Write, capsys: Capture) -> None:
        write("a.py", self.TEXT)
        main(["check", "--fix", "--format", "json"])
        assert json.loads(capsys.readouterr().out)["summary"]["fixed"] == 2

    def test_a_notebook(self, write: Write) -> None:
        content = {"cells": [{"cell_type": "code", "source": ["import torch\n", "bad()"], "outputs": [1]}]}
        file = write("a.ipynb", json.dumps(content, indent=1) + "\n")
        assert main(["check", "--fix"]) == 0
        assert json.loads(file.read_text())["cells"][0] == {
            "cell_type": "code",
            "source": ["import torch\n", "good()"],
            "outputs": [1],
        }

    def test_mode_and_links_are_kept(self, write: Write, project: Path) -> None:
        file = write("real/a.py", self.TEXT)
        file.chmod(0o755)
        (project / "link.py").symlink_to(file)
        main(["check", "--fix", "link.py"])
        assert (project / "link.py").is_symlink()
        assert "good(good" in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o755
        assert os.listdir(file.parent) == ["a.py"]

    def test_not_for_changed_lines_alone(self, project: Path, capsys: Capture) -> None:
        assert main(["check", "--fix", "--diff-base", "HEAD"]) == 2
        assert "cannot be combined with --diff-base" in capsys.readouterr().err

    def test_what_changes_meanwhile_is_not_overwritten(self, write: Write) -> None:
        file = write("a.py", "x = 2\n")
        with pytest.raises(fixes.UsageError, match="has changed"):
            fixes.write(fixes.Fixed("a.py", b"x = 1\n", b"x = 3\n", (), ()))
        assert file.read_text() == "x = 2\n"


class TestWithheld:
    """Fixes of real rules that reveal other findings."""

    PROGRAM = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.zeros(3, 2)
{first}
x.to(device)
{last}
"""

    def test_a_fix_and_that_of_what_it_reveals_are_applied_together(self, write: Write, capsys: Capture) -> None:
        file = write("a.py", self.PROGRAM.format(first="pass", last="print(x.numpy())"))
        assert main(["check", "--diff"]) == 1
        assert "would fix 1 of 1 findings, and 1 that only these fixes reveal\n" in capsys.readouterr().err
        assert main(["check", "--fix", "--show-fixes"]) == 0
        assert "x = x.to(device)\nprint(x.cpu().numpy())\n" in file.read_text()
        said = capsys.readouterr()
        assert "1 × DPL501 (move-result-discarded)\n    1 × DPL507 (numpy-on-cuda)" in said.err
        assert "no findings, 1 fixed" in said.out

    def test_a_fix_is_withheld_with_a_reason_and_applied_once_that_is_gone(self, write: Write, capsys: Capture) -> None:
        program = self.PROGRAM.format(first="y = torch.zeros(3, 2)", last="z = x + y")
        file = write("a.py", program)
        assert main(["check", "--fix"]) == 1
        assert file.read_text() == program
        said = capsys.readouterr()
        assert said.err == (
            "placement-lint: a.py:6:1: the fix of DPL501 is not applied: it would reveal DPL503 at line 7: fix that "
            "first, or apply its fix as well with --unsafe-fixes\n"
        )
        assert "fixable" not in said.out
        assert main(["check", "--fix", "-q"]) == 1
        assert capsys.readouterr().err == ""
        file.write_text(program.replace("x + y", "x + y.to(device)"))
        assert main(["check", "--fix"]) == 0
        assert file.read_text() == program.replace("x + y", "x + y.to(device)").replace("x.to", "x = x.to", 1)

    def test_unsafe_fixes_of_what_it_reveals(self, write: Write) -> None:
        file = write("a.py", self.PROGRAM.format(first="y = torch.zeros(3, 2)", last="z = x + y"))
        assert main(["check", "--fix", "--unsafe-fixes"]) == 0
        assert "x = x.to(device)\nz = x + y.to(device)\n" in file.read_text()


class Scripted:
    """A checker with a finding for each `!` of a text, and the fix that ``replacements`` has for its position."""

    def __init__(self, replacements: dict[int, str]) -> None:
        self.replacements = replacements

    def check_bytes(self, data: bytes, path: str) -> Checked:
        text = data.decode()
        places = [index for index, letter in enumerate(text) if letter == "!"]
        findings = tuple(self.finding(index) for index in places)
        return Checked(path, findings, skipped="broken" in text)

    def finding(self, index: int) -> Finding:
        place = Range(1, index + 1, 1, index + 2)
        fix = Fix(Applicability.SAFE, "", (Edit(place, self.replacements.get(index, "")),))
        return Finding("DPL301", "n", Severity.ERROR, "m", "a.py", place, fix=fix)


@pytest.mark.parametrize(
    ("text", "replacements", "after"),
    [
        ("a!b!", {}, "ab"),
        ("a!b!", {1: "broken", 3: "c"}, "a!bc"),  # the first fix alone would break the file
        ("a!b!", {1: "!", 3: "!"}, "a!b!"),  # ineffective fixes end the loop
        ("a!b!", {1: "!!", 3: ""}, "a!b"),  # a fix that adds findings is skipped
        ("a!", {1: "broken"}, "a!"),
    ],
)
def test_only_what_makes_a_file_better(job: Job, text: str, replacements: dict[int, str], after: str) -> None:
    fixer = Fixer(job, unsafe=False)
    fixer.checker = Scripted(replacements)  # type: ignore[assignment]
    fixed = fixer.fix(text.encode(), "a.py")
    assert fixed.after.decode() == after
    assert len(fixed.withheld) == len(fixed.left)


@pytest.mark.parametrize(
    ("text", "replacements", "reason"),
    [
        ("#!", {1: "broken"}, "the fixed file cannot be parsed"),
        ("#!", {1: "!"}, "it would not remove the finding"),
        ("#!", {1: "é"}, "it would change more of the file than its own place"),
    ],
)
def test_reasons(job: Job, text: str, replacements: dict[int, str], reason: str) -> None:
    fixer = Fixer(job, unsafe=False)
    fixer.checker = Scripted(replacements)  # type: ignore[assignment]
    (withheld,) = fixer.fix(f"{text}\n# coding: ascii\n".encode(), "a.py").withheld
    assert withheld.reason == reason


@pytest.mark.parametrize(
    ("edits", "line", "before"),
    [
        ([put(1, 1, 2, "x")], 5, 5),
        ([put(1, 1, 2, "x\ny\nz")], 5, 3),
        ([put(1, 1, 2, "x\ny\nz")], 1, 1),
        ([put(3, 1, 2, "x\ny"), put(9, 1, 2, "x\ny")], 8, 7),
        ([Edit(Range(1, 1, 3, 1), "x\n")], 5, 6),
    ],
)
def test_a_revealed_finding_has_its_line_in_the_file_as_it_is(edits: list[Edit], line: int, before: int) -> None:
    finding = Finding("DPL301", "n", Severity.ERROR, "m", "a.py", Range(line, 1, line, 2))
    assert fixes._line_before(finding, [edits]) == f"line {before}"


WRITER = """
from placement_lint.fix.fixes import Fixed, write
texts = [b"a" * 3_000_000, b"b" * 3_000_000]
print("ready", flush=True)
while True:
    write(Fixed("a.py", *texts, (), ()))
    texts.reverse()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_killed_fix_leaves_the_old_file_or_the_new_one(write: Write, project: Path) -> None:
    file = write("a.py")
    for delay in (0.0, 0.003, 0.011, 0.02, 0.031):
        file.write_bytes(b"a" * 3_000_000)
        process = subprocess.Popen([sys.executable, "-c", WRITER], cwd=project, stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        data = file.read_bytes()
        assert len(data) == 3_000_000
        assert len(set(data)) == 1


class TestMapLocation:
    """``map_location="cpu"`` is a safe fix if no tensor of the file is used where it is."""

    PROGRAM = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(8, 4).to(device)
path, own, total = "model.pth", net.state_dict(), {}


def scores(bank):
    return torch.mm(bank[0], net.weight.t())


loaded = torch.load(path)
net.load_state_dict(loaded["net"])
"""

    @pytest.mark.parametrize(
        "line",
        [
            'print(loaded["best"], "%s %s" % (loaded["a"], loaded["b"]), "{}".format(loaded["best"]))',
            'rounds = range(loaded["round"] + 1, 10)',
            'total["epoch"] = loaded["epoch"]',
            'net.epoch = loaded["epoch"]',
            'bank = loaded["bank"] if "bank" in loaded else None; print(bank is None)',
            'net.load_state_dict({key.replace("module.", ""): value for key, value in loaded["ema"].items()})',
            'own.update({k: v for k, v in loaded["net"].items() if v.shape == own[k].shape}); net.load_state_dict(own)',
            'for name, part in net.named_parameters(): part.data.copy_(loaded["net"][name])',
        ],
    )
    def test_nothing_is_used_where_it_is(self, write: Write, capsys: Capture, line: str) -> None:
        assert self._applicability(write, capsys, line) == "safe"

    @pytest.mark.parametrize(
        "line",
        [
            'torch.mm(loaded["bank"], net.weight)',
            'net.weight @ loaded["bank"]',
            'net(loaded["images"])',
            'scores(loaded["bank"])',
            'scores([loaded["bank"]])',
            'total["bank"] = loaded["bank"]; scores(total["bank"])',
            'print(net.weight.max() > loaded["best"])',
            'weights, bank = loaded["both"]',
            'net.bank = loaded["bank"]',
            'total.update(loaded["banks"])',
            'scores(dict(loaded)["bank"])',
            "torch.mm(loaded.bank, net.weight)",
            'loss = nn.CrossEntropyLoss(loaded["weights"])',
            'shifted = loaded["mean"].clone()',
        ],
    )
    def test_something_is(self, write: Write, capsys: Capture, line: str) -> None:
        assert self._applicability(write, capsys, line) == "unsafe"

    def test_a_function_gives_a_part_of_it_back(self, write: Write, capsys: Capture) -> None:
        text = "def bank():\n    loaded = torch.load(path)\n    net.load_state_dict(loaded['net'])\n    return {}\n"
        program = self.PROGRAM.partition("loaded = ")[0]
        for given, expected in (("loaded['bank']", "unsafe"), ("loaded['epoch']", "safe")):
            assert self._of(write, capsys, program + text.format(given)) == expected

    def _applicability(self, write: Write, capsys: Capture, line: str) -> str:
        return self._of(write, capsys, f"{self.PROGRAM}{line}\n")

    def _of(self, write: Write, capsys: Capture, program: str) -> str:
        write("a.py", program)
        main(["check", "--select", "DPL603", "--format", "json", "--no-cache", "a.py"])
        (finding,) = json.loads(capsys.readouterr().out)["findings"]
        return str(finding["fix"]["applicability"])
