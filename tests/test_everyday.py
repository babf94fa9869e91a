"""The options that users expect of a linter, and the tool's messages about its own work."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint import registry, spelling
from placement_lint.cli import main, progress
from placement_lint.cli.check import NEEDED, OVERRULED, Check, Request

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]

MIXED = "import torch\nbad()\nworse()\nadvice()\n"
ANSI = "\x1b["


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("fake_rules")
class TestReports:
    def test_concise_shows_the_severity_and_what_is_fixable(self, write: Write, capsys: Capture) -> None:
        write("a.py", MIXED)
        main(["check", "--format", "concise"])
        assert capsys.readouterr().out.splitlines()[:4] == [
            "a.py:2:1: DPL301 [*] error: `bad()` is called",
            "a.py:3:1: DPL302 warning: `worse()` is called",
            "a.py:4:1: DPL501 [*] info: `advice()` is called",
            "[*] 2 fixable with `--fix`, 1 more with `--unsafe-fixes`",
        ]

    def test_unsafe_fixes_count_where_they_are_wanted(self, write: Write, capsys: Capture) -> None:
        write("a.py", MIXED)
        main(["check", "--format", "concise", "--unsafe-fixes"])
        lines = capsys.readouterr().out.splitlines()
        assert lines[1] == "a.py:3:1: DPL302 [*] warning: `worse()` is called"
        assert lines[3] == "[*] 3 fixable with `--fix --unsafe-fixes`"

    @pytest.mark.parametrize("form", ["full", "concise"])
    def test_quiet(self, write: Write, capsys: Capture, form: str) -> None:
        write("a.py", "import torch\nbad()\n")
        main(["check", "--format", form])
        loud = capsys.readouterr()
        assert main(["check", "--format", form, "-q", "--show-fixes"]) == 1
        quiet = capsys.readouterr()
        assert quiet.err == ""
        assert loud.out.startswith(quiet.out)
        assert loud.out[len(quiet.out) :].splitlines()[-1].startswith("1 file checked")
        assert "checked" not in quiet.out

    def test_quiet_without_findings_prints_nothing(self, write: Write, capsys: Capture) -> None:
        write("a.py", "import torch\n")
        assert main(["check", "-q"]) == 0
        assert capsys.readouterr() == ("", "")
        assert main(["check", "-q", str(write("empty/notes.txt").parent)]) == 0
        assert capsys.readouterr().err == ""

    def test_verbose(self, write: Write, project: Path, capsys: Capture) -> None:
        write("pyproject.toml", "[tool.placement-lint]\nselect = ['DPL3']\n")
        write("a.py", MIXED)
        write("b.py", "# placement-lint: skip-file\n")
        main(["check", "-v", "--no-cache"])
        said = capsys.readouterr().err.splitlines()
        assert said == [
            f"placement-lint: settings of {project}: {project / 'pyproject.toml'}; 3 rules are selected",
            "placement-lint: 2 files are selected, the cache is disabled",
            "placement-lint: a.py: 2 findings",
            "placement-lint: b.py: skipped",
        ]

    @pytest.mark.parametrize("form", ["full", "concise"])
    def test_color(self, write: Write, capsys: Capture, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        write("a.py", MIXED)

        def said(*options: str) -> str:
            main(["check", "--format", form, *options])
            return capsys.readouterr().out

        plain, colored = said(), said("--color", "always")
        assert ANSI not in plain
        assert ANSI in colored
        timed = re.compile(r" in \d+\.\d s")
        assert timed.sub("", re.sub(r"\x1b\[[0-9;]*m", "", colored)) == timed.sub("", plain)
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert ANSI in said()
        assert ANSI not in said("--color", "never")
        monkeypatch.setenv("NO_COLOR", "1")
        assert ANSI not in said()
        assert ANSI in said("--color", "always")

    def test_a_file_is_never_colored(self, write: Write, project: Path) -> None:
        write("a.py", MIXED)
        main(["check", "--color", "always", "--output", "report.txt"])
        assert ANSI not in (project / "report.txt").read_text()

    def test_show_files(self, write: Write, project: Path, capsys: Capture) -> None:
        write("pyproject.toml", "[tool.placement-lint]\nexclude = ['third_party']\n")
        for name in ("b.py", "a.py", "third_party/c.py", "notes.md"):
            write(name, MIXED)
        assert main(["check", "--show-files"]) == 0
        assert capsys.readouterr().out.splitlines() == [str(project / name) for name in ("a.py", "b.py")]

    def test_the_baseline_that_was_written_is_named(self, write: Write, capsys: Capture) -> None:
        write("a.py", MIXED + "def f():\n    bad()\n    bad()\n")
        main(["check", "--write-baseline", "known.json"])
        assert capsys.readouterr().err == "placement-lint: wrote 5 findings as 4 entries to known.json\n"
        write("a.py", "import torch\nbad()\n")
        main(["check", "--write-baseline", "known.json"])
        assert capsys.readouterr().err == "placement-lint: wrote 1 finding to known.json\n"

    def test_the_time_of_probes_counts(self, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
        def probed(_: Check, run: object) -> object:
            time.sleep(0.3)
            return run

        monkeypatch.setattr(Check, "_probed", probed)
        write("a.py", MIXED)
        main(["check", "--format", "json"])
        assert json.loads(capsys.readouterr().out)["summary"]["seconds"] >= 0.3


@pytest.mark.usefixtures("fake_rules")
class TestFixing:
    @pytest.mark.parametrize(
        ("options", "status"),
        [
            ("--fix", 0),
            ("--fix --exit-non-zero-on-fix", 1),
            ("--fix --exit-non-zero-on-fix --exit-zero", 0),
            ("--exit-non-zero-on-fix", 1),
            ("--fix --no-fix", 1),
            ("--no-fix --fix", 0),
        ],
    )
    def test_exit_status(self, write: Write, options: str, status: int) -> None:
        file = write("a.py", "import torch\nbad()\n")
        assert main(["check", *options.split()]) == status
        fixes = options.rpartition("fix --")[2] != "no-fix" and options != "--exit-non-zero-on-fix"
        assert file.read_text() == f"import torch\n{'good' if fixes else 'bad'}()\n"

    def test_a_run_that_fixes_nothing_ends_well(self, write: Write) -> None:
        write("a.py", "import torch\n")
        assert main(["check", "--fix", "--exit-non-zero-on-fix"]) == 0


@pytest.mark.usefixtures("fake_rules")
class TestOptionsWithoutEffect:
    @pytest.mark.parametrize(
        ("options", "warning"),
        [
            ("--show-fixes", "--show-fixes has no effect without --fix"),
            ("--strict-probes", "--strict-probes has no effect without --probe"),
            ("--fail-on error --exit-zero", "--fail-on has no effect with --exit-zero"),
            ("--diff --format json", "--format has no effect with --diff"),
            ("--fix --diff", "--fix has no effect with --diff"),
            ("--stdin-filename b.py", "--stdin-filename has no effect without `-` as a path"),
        ],
    )
    def test_they_are_named(self, write: Write, capsys: Capture, options: str, warning: str) -> None:
        write("a.py", MIXED)
        main(["check", *options.split()])
        assert f"placement-lint: warning: {warning}\n" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "options", ["", "--fix --show-fixes", "--no-fix", "--diff", "--exit-zero", "--unsafe-fixes"]
    )
    def test_the_others_are_not(self, write: Write, capsys: Capture, options: str) -> None:
        write("a.py", MIXED)
        main(["check", *options.split()])
        assert "has no effect" not in capsys.readouterr().err

    def test_the_tables_name_options(self) -> None:
        names = {name for pair in (*NEEDED, *OVERRULED) for name in pair}
        assert names <= vars(Request()).keys()


class TestProgress:
    """The progress bar on a simulated terminal: a timer draws it, independently of the run."""

    @staticmethod
    def drawn(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, seconds: float, wanted: bool = True) -> str:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(progress, "PATIENCE", 0.05)
        with progress.progress(3, wanted=wanted) as advance:
            time.sleep(seconds)
            advance()
        return terminal.getvalue()

    def test_it_appears_before_the_first_file_is_done(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        assert "Checking" in self.drawn(monkeypatch, Terminal(), 0.8)

    def test_short_runs_do_without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.drawn(monkeypatch, Terminal(), 0.0) == ""

    def test_what_is_no_terminal_shows_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.drawn(monkeypatch, io.StringIO(), 0.3) == ""

    def test_nobody_has_to_want_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.drawn(monkeypatch, Terminal(), 0.3, wanted=False) == ""

    def test_patience_is_less_than_a_second(self) -> None:
        assert progress.PATIENCE < 1


@pytest.mark.parametrize(
    ("word", "near"),
    [("wrapers", "wrappers"), ("DPL51", "DPL501"), ("chekc", "check"), ("foo", ""), ("xyz", ""), ("tooling", "")],
)
def test_only_close_names_are_suggested(word: str, near: str) -> None:
    known = ["check", "cache", "wrappers", "tool", "folklore", "DPL501"]
    assert spelling.did_you_mean(word, known) == (f" (did you mean `{near}`?)" if near else "")


def test_an_unknown_command(capsys: Capture) -> None:
    assert main(["chekc"]) == 2
    assert "There is no command `chekc` (did you mean `check`?)" in capsys.readouterr().err
    assert main(["frobnicate"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_the_summary_of_every_command_fits_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_the_list_of_rules_fits_a_terminal(capsys: Capture) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if not line.startswith(" ")]
    assert heads == [[rule.code, rule.severity.value, rule.name] for rule in registry.all_rules()]


@pytest.mark.skipif(os.name != "posix", reason="needs /dev/stdout")
def test_a_report_goes_to_a_device(write: Write) -> None:
    write("a.py", "import torch\n")
    command = [sys.executable, "-m", "placement_lint", "check", "--format", "json:/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])
