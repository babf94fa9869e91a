"""The settings in [tool.placement-lint]."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from placement_lint.cli import main
from placement_lint.config.files import Projects, load_settings
from placement_lint.config.settings import Settings
from placement_lint.errors import UsageError
from placement_lint.finding import Severity

Write = Callable[..., Path]


def test_defaults(project: Path) -> None:
    assert load_settings(project) == Settings(root=project)


def test_everything_set(write: Write, project: Path) -> None:
    write(
        "pyproject.toml",
        """
        [tool.placement-lint]
        select = ["ALL"]
        ignore = ["DPL301"]
        exclude = ["third_party"]
        fail-on = "error"
        gpus = 4
        per-file-ignores = { "tests/*" = ["DPL3"] }
        """,
    )
    assert load_settings(project) == Settings(
        root=project,
        select=("ALL",),
        ignore=("DPL301",),
        exclude=("third_party",),
        fail_on=Severity.ERROR,
        gpus=4,
        per_file_ignores={"tests/*": ("DPL3",)},
    )


def test_the_nearest_section_above_counts(write: Write, project: Path) -> None:
    write("pyproject.toml", "[tool.placement-lint]\ngpus = 8\n")
    write("package/pyproject.toml", "[project]\nname = 'x'\n")
    settings = load_settings(project / "package")
    assert (settings.gpus, settings.root) == (8, project)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("selct = []", "unknown key `selct`.*did you mean `select`"),
        ("fail_on = 'error'", "unknown key `fail_on`.*did you mean `fail-on`"),
        ("select = 'ALL'", "`select` .* must be a list of strings"),
        ("fail-on = 'fatal'", "`fail-on` .* must be one of info, warning, error"),
        ("gpus = 0", "`gpus` .* must be a whole number"),
        ("gpus = true", "`gpus` .* must be a whole number"),
        ("per-file-ignores = ['a']", "`per-file-ignores` .* must be a table"),
        ("force-exclude = 1", "`force-exclude` .* must be true or false"),
        ("baseline = 1", "`baseline` .* must be a string"),
        ("output-format = 'xml'", "`output-format` .* must be one of full, concise"),
        ("extend = 1", "`extend` must be the path of a file"),
        ("extend = 'missing.toml'", "missing.toml: No such file"),
        ("extend = 'pyproject.toml'", "`extend` leads back to this file"),
        ("select = [", "pyproject.toml: "),
    ],
)
def test_mistakes_are_named(write: Write, project: Path, section: str, words: str) -> None:
    write("pyproject.toml", f"[tool.placement-lint]\n{section}\n")
    with pytest.raises(UsageError, match=words):
        load_settings(project)


def test_the_section_must_be_a_table(write: Write, project: Path) -> None:
    write("pyproject.toml", "[tool]\nplacement-lint = 1\n")
    with pytest.raises(UsageError, match="must be a table"):
        load_settings(project)


def test_a_file_of_our_own_needs_no_section_and_comes_first(write: Write, project: Path) -> None:
    write("pyproject.toml", "[tool.placement-lint]\ngpus = 8\n")
    write("placement-lint.toml", "gpus = 4\n")
    assert load_settings(project).gpus == 4
    write("placement-lint.toml", "gpsu = 4\n")
    with pytest.raises(UsageError, match=r"placement-lint.toml: unknown key `gpsu` \(did you mean `gpus`\?\)"):
        load_settings(project)


def test_extending(write: Write, project: Path) -> None:
    write(
        "base.toml",
        "gpus = 8\nselect = ['DPL3']\nextend-exclude = ['a']\nextend-per-file-ignores = {t = ['DPL3']}\n",
    )
    write("shared/pyproject.toml", "[tool.placement-lint]\nextend = '../base.toml'\nfail-on = 'error'\n")
    write(
        "team/placement-lint.toml",
        "extend = '../shared/pyproject.toml'\nselect = ['ALL']\nextend-exclude = ['b']\n"
        "extend-per-file-ignores = {t = ['DPL5']}\n",
    )
    settings = load_settings(project / "team")
    assert settings == Settings(
        root=project / "team",
        gpus=8,
        select=("ALL",),
        extend_exclude=("a", "b"),
        fail_on=Severity.ERROR,
        extend_per_file_ignores={"t": ("DPL3", "DPL5")},
    )


def test_extending_in_a_circle(write: Write, project: Path) -> None:
    write("a.toml", "extend = 'placement-lint.toml'\n")
    write("placement-lint.toml", "extend = 'a.toml'\n")
    with pytest.raises(UsageError, match="`extend` leads back to this file"):
        load_settings(project)


def test_what_is_extended_must_be_meant_for_it(write: Write, project: Path) -> None:
    write("base/pyproject.toml", "[project]\nname = 'x'\n")
    write("placement-lint.toml", "extend = 'base/pyproject.toml'\n")
    with pytest.raises(UsageError, match="there is no"):
        load_settings(project)


@pytest.mark.usefixtures("fake_rules")
class TestChecking:
    TEXT = "import torch\nbad(), worse(), advice()\n"

    def found(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
        main(["check", "--format", "json", *arguments])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [f"{finding['path']} {finding['code']}" for finding in findings]

    def test_each_file_has_the_nearest_configuration(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        write("placement-lint.toml", "select = ['bad-call']\n")
        write("deep/placement-lint.toml", "select = ['moves']\nexclude = ['generated']\n")
        for name in ("a.py", "deep/er/b.py", "deep/generated/c.py", "generated/d.py"):
            write(name, self.TEXT)
        assert self.found(capsys) == ["a.py DPL301", "deep/er/b.py DPL501", "generated/d.py DPL301"]
        assert self.found(capsys, "--isolated", "deep/er", "--select", "worse-call") == ["deep/er/b.py DPL302"]

    def test_the_failing_severity_is_that_of_the_file(self, write: Write) -> None:
        write("lax/placement-lint.toml", "fail-on = 'error'\n")
        write("lax/a.py", "import torch\nworse()\n")
        assert main(["check"]) == 0
        assert main(["check", "--fail-on", "warning"]) == 1
        assert main(["check", "--fail-on", "warning", "--exit-zero"]) == 0
        write("b.py", "import torch\nworse()\n")
        assert main(["check"]) == 1

    def test_one_file_for_all(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        write("deep/placement-lint.toml", "select = ['moves']\n")
        write("ci/strict.toml", "select = ['worse-call']\nexclude = ['/deep/out']\n")
        write("deep/a.py", self.TEXT)
        write("deep/out/a.py", self.TEXT)
        assert self.found(capsys, "--config", "ci/strict.toml") == ["deep/a.py DPL302"]
        assert main(["check", "--config", "missing.toml"]) == 2

    def test_the_command_line_adds(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        write("placement-lint.toml", "select = ['bad-call']\nextend-select = ['moves']\nexclude = ['x.py']\n")
        for name in ("a.py", "x.py", "y.py"):
            write(name, self.TEXT)
        assert self.found(capsys, "--exclude", "y.py") == ["a.py DPL301", "a.py DPL501"]
        added = self.found(capsys, "--extend-select", "worse-call", "--ignore", "moves", "a.py")
        assert added == ["a.py DPL301", "a.py DPL302"]
        assert self.found(capsys, "--force-exclude", "x.py", "a.py") == ["a.py DPL301", "a.py DPL501"]

    def test_the_format_is_configured(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        write("placement-lint.toml", "output-format = 'github'\n")
        write("a.py", "import torch\nbad()\n")
        main(["check"])
        assert capsys.readouterr().out.startswith("::error ")

    @pytest.mark.parametrize(
        "line", ["select = ['bda-call']", "extend-ignore = ['bda-call']", "per-file-ignores = {'*' = ['bda-call']}"]
    )
    def test_an_unknown_rule_is_refused(self, write: Write, capsys: pytest.CaptureFixture[str], line: str) -> None:
        write("deep/placement-lint.toml", line)
        write("deep/a.py", self.TEXT)
        assert main(["check"]) == 2
        said = capsys.readouterr().err
        assert "deep/placement-lint.toml" in said
        assert "did you mean `bad-call`?" in said


def test_the_settings_of_a_folder_are_read_once(write: Write, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("placement-lint.toml", "gpus = 4\n")
    projects = Projects()
    assert projects.settings(project / "a" / "b").gpus == 4
    monkeypatch.setattr("placement_lint.config.files.configuration_in", lambda folder: None)
    assert projects.settings(project / "a").gpus == 4


class TestShowing:
    def test_settings_and_their_sources(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        write("base.toml", "gpus = 4\nextend-exclude = ['a']\n")
        write("deep/pyproject.toml", "[tool.placement-lint]\nextend = '../base.toml'\nextend-exclude = ['b']\n")
        assert main(["config", "deep", "--format", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["root"].endswith("deep")
        assert shown["settings"]["gpus"] == {"value": 4, "sources": ["base.toml"]}
        assert shown["settings"]["extend-exclude"] == {
            "value": ["a", "b"],
            "sources": ["base.toml", "deep/pyproject.toml"],
        }
        assert shown["settings"]["fail-on"] == {"value": "warning", "sources": []}

    def test_the_text_is_a_configuration(self, write: Write, capsys: pytest.CaptureFixture[str], project: Path) -> None:
        write("placement-lint.toml", "select = ['DPL3']\nper-file-ignores = { 't' = ['DPL5'] }\nbaseline = 'b.json'\n")
        before = load_settings(project)
        main(["config"])
        text = capsys.readouterr().out
        assert 'fail-on = "warning"' in text
        assert "# placement-lint.toml" in text
        write("placement-lint.toml", text)
        assert load_settings(project) == before

    def test_a_missing_path(self, project: Path) -> None:
        assert main(["config", "missing"]) == 2
