"""Combines the results of a run's files: drops duplicate findings, and findings that another file refutes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from placement_lint.finding import Finding, Range
from placement_lint.project.saved_states import SavedState, are_alike, are_on_cpu, source_of
from placement_lint.report.results import Checked

Key = tuple[str, int, str, Range]


@dataclass(frozen=True)
class _Said:
    finding: Finding
    own: bool  # reported by the check of its own file

    @property
    def weight(self) -> tuple[object, ...]:
        """The most severe first, then a file's own findings; the rest makes the order of files irrelevant."""
        steps = tuple((step.path, step.range, step.message) for step in self.finding.trace)
        return (-self.finding.severity.rank, not self.own, self.finding.message, steps)


def reconciled(results: Sequence[Checked], imported_elsewhere: Container[str] = ()) -> list[Finding]:
    """The findings of a run, whatever the order of its files: sorted.

    ``imported_elsewhere`` are the files that files outside the run import.
    """
    by_key: dict[Key, list[_Said]] = {}
    for said in _standing(results, imported_elsewhere):
        by_key.setdefault(_key(said.finding), []).append(said)
    kept = (finding for said in by_key.values() for finding in _heaviest(said))
    return sorted(kept, key=lambda finding: finding.sort_key)


def _key(finding: Finding) -> Key:
    return (finding.path, finding.cell or 0, finding.code, finding.range)


def _standing(results: Sequence[Checked], imported_elsewhere: Container[str]) -> Iterator[_Said]:
    """The findings that no other file refutes."""
    tended = {attribute for checked in results for attribute in checked.tended}
    saved = [state for checked in results for state in checked.saved]
    needed = {comment for checked in results for comment in checked.needed}
    harmless = {load for checked in results for load in checked.harmless}
    own = {_key(finding) for checked in results for finding in checked.findings if finding.path == checked.path}
    innocent = _called_without(results)

    def is_needed(comment: Finding) -> bool:
        return (comment.path, comment.range) in needed or comment.path in imported_elsewhere

    for checked in results:
        provisos = {one.finding: one for one in checked.provisional}
        at_calls = _first_at_calls(checked, innocent - own)
        for finding in checked.findings:
            proviso = provisos.get(finding)
            if proviso is not None and proviso.unless_tended in tended:
                continue
            name = proviso.unless_on_cpu if proviso is not None else None
            if name is not None and (
                (finding.path, finding.range) in harmless or are_on_cpu(name, checked.path, saved)
            ):
                continue
            if proviso is not None and proviso.unless_needed and is_needed(finding):
                continue
            if proviso is not None and proviso.at_call is not None and _key(finding) in innocent - own:
                if at_calls[_key(proviso.at_call)] != finding:
                    continue
                finding = proviso.at_call
            yield _Said(finding, finding.path == checked.path)
        yield from _of_saved(checked, saved)


def _of_saved(checked: Checked, saved: Sequence[SavedState]) -> Iterator[_Said]:
    """The findings about a state dict that another program saves."""
    wanted = [(one, one.if_saved) for one in checked.provisional if one.if_saved is not None]
    prefixes: dict[Key, set[str | None]] = {}
    for one, state in wanted:
        prefixes.setdefault(_key(one.finding), set()).add(state.prefix)
    for one, state in wanted:
        origin = source_of(state, checked.path, saved, either=len(prefixes[_key(one.finding)]) > 1)
        if origin is not None:
            saver, when = PurePath(origin.program).name, f" when {origin.option}" if origin.option else ""
            said = f"; `{saver}` saves it so{when}" if when else ""
            if state.by_default and not are_alike(origin.state.file, state.file):
                said = f"; that is so if it loads a file that `{saver}` saves{when}"
            trace = (*origin.steps, *one.finding.trace)
            finding = replace(one.finding, message=one.finding.message + said, trace=trace)
            yield _Said(finding, finding.path == checked.path)


def _first_at_calls(checked: Checked, elsewhere: set[Key]) -> dict[Key, Finding]:
    """Of the findings reported at the same call, the one that happens first: the others follow from it."""
    first: dict[Key, Finding] = {}
    for one in checked.provisional:
        if one.at_call is not None and _key(one.finding) in elsewhere:
            first.setdefault(_key(one.at_call), one.finding)
    return first


def _called_without(results: Sequence[Checked]) -> set[Key]:
    """Findings in plain functions of other files if some call of the function leads to none of that rule there."""
    functions: dict[Key, tuple[str, str, str]] = {}
    guilty: dict[tuple[str, str, tuple[str, str, str]], set[tuple[str, Range]]] = {}
    for checked in results:
        for one in checked.provisional:
            if one.function is not None and one.at_call is not None:
                functions[_key(one.finding)] = one.function
                calls = guilty.setdefault((checked.path, one.finding.code, one.function), set())
                calls.add((one.at_call.path, one.at_call.range))
    uses: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
    for checked in results:
        for function, count in checked.uses:
            uses.setdefault(function, []).append((checked.path, count))
    return {
        key
        for key, function in functions.items()
        if any(count > len(guilty.get((path, key[2], function), ())) for path, count in uses.get(function, ()))
    }


def _heaviest(said: Iterable[_Said]) -> list[Finding]:
    """One of the findings of several files at the same place, with the fix from the file itself."""
    best = min(said, key=lambda one: one.weight)
    own = [one.finding for one in said if one.own]
    if best.own:
        return own
    fix = next((finding.fix for finding in own if finding.fix), None)
    return [replace(best.finding, fix=fix)]
