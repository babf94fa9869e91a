"""The commands as users run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint import __version__, errors
from placement_lint.cli import main
from placement_lint.cli.check import Check

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]

MIXED = "import torch\nbad()\nworse()\nadvice()\n"


def summary(text: str) -> str:
    return text.splitlines()[-1].partition(" in ")[0]


@pytest.mark.usefixtures("fake_rules")
class TestCheck:
    @pytest.mark.parametrize(("text", "status"), [("bad()", 1), ("worse()", 1), ("advice()", 0), ("good()", 0)])
    def test_exit_status(self, write: Write, text: str, status: int) -> None:
        write("a.py", f"import torch\n{text}\n")
        assert main(["check", "a.py"]) == status

    def test_the_failing_severity_is_configured(self, write: Write) -> None:
        write("a.py", "import torch\nworse()\n")
        write("pyproject.toml", "[tool.placement-lint]\nfail-on = 'error'\n")
        assert main(["check"]) == 0

    def test_the_current_folder_is_the_default(self, write: Write, capsys: Capture) -> None:
        write("pkg/a.py", MIXED)
        assert main(["check", "--format", "concise"]) == 1
        assert [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()[:3]] == [
            "pkg/a.py:2:1:",
            "pkg/a.py:3:1:",
            "pkg/a.py:4:1:",
        ]

    @pytest.mark.parametrize(
        ("options", "codes"),
        [
            ("--select DPL3", "DPL301 DPL302"),
            ("--select bad-call,moves", "DPL301 DPL501"),
            ("--select DPL301 --select DPL501", "DPL301 DPL501"),
            ("--ignore state", "DPL501"),
            ("--severity warning", "DPL301 DPL302"),
            ("--select ALL --ignore DPL3", "DPL501"),
        ],
    )
    def test_selection(self, write: Write, capsys: Capture, options: str, codes: str) -> None:
        write("a.py", MIXED)
        main(["check", "--format", "json", *options.split()])
        found = json.loads(capsys.readouterr().out)["findings"]
        assert " ".join(finding["code"] for finding in found) == codes

    def test_the_command_line_wins_over_the_project(self, write: Write, capsys: Capture) -> None:
        write("pyproject.toml", "[tool.placement-lint]\nselect = ['DPL3']\nignore = ['DPL302']\n")
        write("a.py", MIXED)
        for options, codes in (("", "DPL301"), ("--ignore DPL301", ""), ("--select DPL3", "DPL301 DPL302")):
            main(["check", "--format", "concise", "-q", *options.split()])
            lines = capsys.readouterr().out.splitlines()
            assert " ".join(line.split()[1] for line in lines) == codes

    def test_full_is_the_default_format(self, write: Write, capsys: Capture) -> None:
        write("a.py", "import torch\nbad()\n")
        main(["check", "a.py"])
        out = capsys.readouterr().out
        assert out.startswith("error DPL301 bad-call  a.py:2:1\n  `bad()` is called\n")
        assert "1. a.py:2  bad is named here" in out
        assert "fix: call `good` instead" in out
        assert summary(out) == "1 file checked, 1 finding (1 error)"

    def test_output_to_a_file(self, write: Write, project: Path, capsys: Capture) -> None:
        write("a.py", MIXED)
        assert main(["check", "--format", "json", "--output", "report.json"]) == 1
        assert len(json.loads((project / "report.json").read_text())["findings"]) == 3
        assert capsys.readouterr().out == ""

    def test_output_that_cannot_be_written(self, write: Write, capsys: Capture) -> None:
        write("a.py")
        assert main(["check", "--output", "no/such/folder.txt"]) == 2
        assert "cannot write no/such/folder.txt" in capsys.readouterr().err

    def test_standard_input(self, project: Path, stdin: Callable[[bytes], None], capsys: Capture) -> None:
        stdin(b"import torch\nbad()\n")
        assert main(["check", "-"]) == 1
        out = capsys.readouterr().out
        assert "<stdin>:2:1" in out
        assert "2 │ bad()" in out

    def test_standard_input_under_a_name(self, write: Write, stdin: Callable[[bytes], None], capsys: Capture) -> None:
        write("pyproject.toml", "[tool.placement-lint]\nper-file-ignores = { 'src/*' = ['DPL301'] }\n")
        stdin(b"import torch\nbad(), worse()\n")
        main(["check", "-", "--stdin-filename", "src/a.py", "--format", "concise"])
        out = capsys.readouterr().out
        assert out.startswith("src/a.py:2:8: DPL302")

    def test_standard_input_stands_alone(self, project: Path, capsys: Capture) -> None:
        assert main(["check", "-", "a.py"]) == 2
        assert "cannot be combined" in capsys.readouterr().err

    def test_statistics(self, write: Write, capsys: Capture) -> None:
        write("a.py", MIXED + "bad()\n")
        assert main(["check", "--statistics"]) == 1
        assert capsys.readouterr().out.splitlines()[0] == "2\tDPL301\t[*] bad-call"
        assert main(["check", "--statistics", "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out)[0]["count"] == 2
        assert main(["check", "--statistics", "--format", "sarif"]) == 2
        assert "--statistics has no format sarif" in capsys.readouterr().err

    def test_a_crash_is_reported_beside_the_findings(self, write: Write, capsys: Capture) -> None:
        write("a.py", "import torch\nbad()\ncrash()\n")
        assert main(["check", "--format", "concise"]) == 2
        captured = capsys.readouterr()
        assert "a.py:2:1: DPL301" in captured.out
        assert "internal error: rule DPL302 (worse-call) failed on a.py: KeyError" in captured.err
        assert "Please report it" in captured.err
        assert "Traceback" not in captured.err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--select", "bda-call"], "unknown rule or family `bda-call` (did you mean `bad-call`?)"),
            (["--ignore", "wrapers"], "did you mean `wrappers`?"),
            (["--jobs", "0"], "--jobs"),
            (["--format", "xml"], "--format"),
            (["--nonsense"], "--nonsense"),
        ],
    )
    def test_bad_arguments(self, write: Write, capsys: Capture, arguments: list[str], words: str) -> None:
        write("a.py")
        assert main(["check", *arguments]) == 2
        assert words in capsys.readouterr().err

    @pytest.mark.parametrize("line", ["selct = []", "select = ['nonsense']", "per-file-ignores = { 'a' = ['nons'] }"])
    def test_bad_configuration(self, write: Write, capsys: Capture, line: str) -> None:
        write("a.py")
        write("pyproject.toml", f"[tool.placement-lint]\n{line}\n")
        assert main(["check"]) == 2
        assert "placement-lint: error: " in capsys.readouterr().err

    def test_interrupted(self, write: Write, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        write("a.py")
        monkeypatch.setattr(Check, "status", interrupt)
        assert main(["check"]) == 130
        assert capsys.readouterr().err.strip() == ""


class TestOtherCommands:
    @pytest.mark.parametrize("rule", ["DPL001", "dpl001", "unreadable-source"])
    def test_explain(self, capsys: Capture, rule: str) -> None:
        assert main(["explain", rule]) == 0
        out = capsys.readouterr().out
        assert out.startswith("# unreadable-source (DPL001)\n")
        assert "## Why is this bad?" in out
        assert "```python\nprint 'hello'\n```" in out

    def test_explain_in_a_terminal(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert main(["explain", "DPL001"]) == 0
        assert "# unreadable-source" not in capsys.readouterr().out

    def test_explain_an_unknown_rule(self, capsys: Capture) -> None:
        assert main(["explain", "unused-supression"]) == 2
        assert "did you mean `unused-suppression`?" in capsys.readouterr().err

    def test_rules(self, capsys: Capture) -> None:
        assert main(["rules"]) == 0
        assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["DPL001", "error", "unreadable-source"]

    def test_rules_as_json(self, capsys: Capture) -> None:
        assert main(["rules", "--format", "json"]) == 0
        first = json.loads(capsys.readouterr().out)[0]
        assert (first["code"], first["family"], first["severity"]) == ("DPL001", "tool", "error")
        assert {"summary", "what", "why", "example", "instead", "silent"} <= first.keys()

    def test_rules_as_markdown(self, capsys: Capture) -> None:
        assert main(["rules", "--format", "markdown"]) == 0
        head, line, first, *_ = capsys.readouterr().out.splitlines()
        assert head == "| Code | Name | Severity | What it reports |"
        assert first.startswith("| DPL001 | `unreadable-source` | error | Reports a file that ")
        assert line.count("|") == first.count("|") == 5

    def test_completion(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("_PLACEMENT_LINT_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", "placement-lint check --format s")
        monkeypatch.setenv("COMP_CWORD", "3")
        with pytest.raises(SystemExit):
            main()
        assert capsys.readouterr().out == "plain,sarif\n"

    def test_version_and_help(self, capsys: Capture) -> None:
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"placement-lint, version {__version__}\n"
        assert main(["check", "--help"]) == 0
        assert "Exit status" in capsys.readouterr().out

    def test_run_without_torch(self, write: Write, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("placement_lint.errors.find_spec", lambda name: None)
        assert main(["run", "train.py"]) == 2
        assert "pip install torch" in capsys.readouterr().err


BLOCK_AND_RUN = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise SystemExit("imported " + name)

sys.meta_path.insert(0, Blocker())
from placement_lint.cli import main
sys.exit(main({arguments!r}))
"""


def run_without(blocked: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool in a process that exits if one of the ``blocked`` packages is imported."""
    script = BLOCK_AND_RUN.format(blocked=blocked, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


HEAVY = ("torch", "numpy", "pygls", "lsprotocol")


@pytest.mark.parametrize("form", ["full", "sarif", "lsp"])
def test_linting_never_imports_torch(write: Write, form: str) -> None:
    write("a.py", "import torch\nimport torch.nn as nn\n\nnet = nn.Linear(2, 2)\n")
    done = run_without(HEAVY, "check", "--format", form)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("forms", [("concise",), ("json",), ("sarif:a", "github:b", "gitlab:c", "junit:d", "lsp")])
def test_formats_for_programs_do_without_rich(write: Write, forms: tuple[str, ...]) -> None:
    write("a.py", "import torch\n")
    options = [f"--format={form}" for form in forms]
    done = run_without((*HEAVY, "rich", "concurrent"), "check", *options)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["check", "--help"]])
def test_small_talk_imports_nothing_heavy(arguments: list[str]) -> None:
    done = run_without((*HEAVY, "rich", "libcst", "pathspec", "concurrent"), *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def test_as_a_module(write: Write) -> None:
    write("a.py", "def f(:\n")
    done = subprocess.run(
        [sys.executable, "-m", "placement_lint", "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "DPL001" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_reader_that_leaves_early_costs_no_traceback(write: Write) -> None:
    for number in range(20):
        write(f"{number}.py", "x = 1  # placement-lint: ignore[nonsense]\n" * 300)
    command = f"{sys.executable} -m placement_lint check --format concise | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_server_without_its_libraries_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    assert main(["server"]) == 2
    assert "pip install pygls lsprotocol" in capsys.readouterr().err


def test_a_path_without_a_command_suggests_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert f"Did you mean `placement-lint check {tmp_path}`?" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "train.py")]) == 2
    error = capsys.readouterr().err
    assert error == f"placement-lint: error: {tmp_path / 'train.py'}: there is no such script\n"
