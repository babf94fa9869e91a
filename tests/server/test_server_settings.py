"""Settings, from files and from the editor, and their changes; several folders at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from editor import DISCARDED, Editor, capabilities, editor
from lsprotocol import types

pytestmark = pytest.mark.asyncio


def tell_of(vi: Editor, *paths: Path) -> None:
    changes = [types.FileEvent(path.as_uri(), types.FileChangeType.Changed) for path in paths]
    vi.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes))


async def test_a_configuration_file_and_its_change(tmp_path: Path) -> None:
    file = tmp_path / "placement-lint.toml"
    file.write_text('ignore = ["DPL501"]\n')
    async with editor(tmp_path) as vi:
        uri = vi.open("train.py", DISCARDED)
        assert await vi.codes(uri) == []
        file.write_text("")
        tell_of(vi, file)
        await vi.until_codes(uri, ["DPL501"])


async def test_files_are_watched(tmp_path: Path) -> None:
    async with editor(tmp_path) as vi:
        (registration,) = await vi.until(lambda: [each for each in vi.registered if each.id == "files"])
        patterns = {each["globPattern"] for each in registration.register_options["watchers"]}
        assert {"**/*.py", "**/pyproject.toml", "**/placement-lint.toml"} <= patterns


async def test_a_broken_configuration_is_complained_about_once(tmp_path: Path) -> None:
    (tmp_path / "placement-lint.toml").write_text('ignor = ["DPL501"]\n')
    async with editor(tmp_path) as vi:
        one, other = vi.open("one.py", DISCARDED), vi.open("other.py", DISCARDED)
        assert await vi.codes(one) == await vi.codes(other) == ["DPL501"]
        assert len([text for text in vi.messages() if "unknown key `ignor`" in text]) == 1


async def test_excluded_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "placement-lint.toml").write_text('exclude = ["old"]\n')
    async with editor(tmp_path) as vi:
        assert await vi.codes(vi.open("old/train.py", DISCARDED)) == []
        assert await vi.codes(vi.open("new/train.py", DISCARDED)) == ["DPL501"]


async def test_a_baseline_holds_in_the_editor_too(tmp_path: Path) -> None:
    (tmp_path / "placement-lint.toml").write_text('baseline = "known.json"\n')
    entry = '{"path": "train.py", "rule": "DPL501", "function": "", "line": "x.to(\'cuda\')", "count": 1}'
    (tmp_path / "known.json").write_text(f'{{"version": 1, "findings": [{entry}]}}')
    async with editor(tmp_path) as vi:
        uri = vi.open("train.py", DISCARDED)
        assert await vi.codes(uri) == []
        vi.replace(uri, "print(x)", "x.to('cuda:1')")
        assert await vi.codes(uri) == ["DPL501"]


async def test_the_editor_s_settings_are_over_the_project_s(tmp_path: Path) -> None:
    (tmp_path / "placement-lint.toml").write_text('ignore = ["DPL501"]\n')
    settings = {"": {"placement-lint": {"ignore": []}}}
    async with editor(tmp_path, capabilities(configuration=True), settings=settings) as vi:
        uri = vi.open("train.py", DISCARDED)
        assert await vi.codes(uri) == ["DPL501"]
        vi.client.set_configuration({"placement-lint": {"ignore": ["moves"]}})
        vi.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
        await vi.until_codes(uri, [])


@pytest.mark.parametrize("sent", [{"placement-lint": {"ignore": ["DPL501"]}}, {"ignore": ["DPL501"]}])
async def test_settings_may_be_pushed(tmp_path: Path, sent: object) -> None:
    async with editor(tmp_path) as vi:
        uri = vi.open("train.py", DISCARDED)
        assert await vi.codes(uri) == ["DPL501"]
        vi.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=sent))
        await vi.until_codes(uri, [])


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"selct": ["ALL"]}, "unknown key `selct` (did you mean `select`?)"),
        ({"select": ["DPL999"]}, "DPL999"),
        ({"inlay-hints": "no"}, "`inlay-hints` must be true or false"),
        ({"probe": "cuda"}, "`probe` must be one of auto, simulated, gpu"),
        ([], "must be a table"),
    ],
)
async def test_wrong_settings_of_the_editor(tmp_path: Path, section: object, words: str) -> None:
    async with editor(tmp_path, initial=section) as vi:
        assert await vi.codes(vi.open("train.py", DISCARDED)) == ["DPL501"]
        assert any(words in text for text in vi.messages()), vi.messages()


async def test_keys_of_the_client_are_ignored(tmp_path: Path) -> None:
    section = {"path": ["placement-lint"], "trace": {"server": "verbose"}, "interpreter": None, "ignore": ["DPL501"]}
    async with editor(tmp_path, initial=section) as vi:
        assert await vi.codes(vi.open("train.py", DISCARDED)) == []
        assert vi.messages() == []


async def test_each_folder_has_its_own_settings(tmp_path: Path) -> None:
    strict, lax = tmp_path / "strict", tmp_path / "lax"
    strict.mkdir()
    lax.mkdir()
    (lax / "placement-lint.toml").write_text('ignore = ["DPL501"]\n')
    settings = {"": {}, strict.as_uri(): {"placement-lint": {"inlay-hints": False}}}
    able = capabilities(configuration=True)
    async with editor(tmp_path, able, settings=settings, folders=[strict, lax]) as vi:
        text = f"{DISCARDED}y = x.cuda()\n"
        one, other = vi.open("strict/train.py", text), vi.open("lax/train.py", text)
        assert (await vi.codes(one), await vi.codes(other)) == (["DPL501"], [])
        assert (await vi.hints(one), await vi.hints(other)) == ([], [(5, 1, "‹cuda:0›")])
