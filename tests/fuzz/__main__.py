"""``python -m tests.fuzz``: try random programs, and show each fault with a small program that has it."""

from __future__ import annotations

import sys
from pathlib import Path
from random import SystemRandom

import click

from .programs import kept
from .runner import Found, reduced, tried

SUFFIX = ".py.txt"
# Oracles whose failures end the process; these programs are not minimised.
DEADLY = ("hang", "death")


@click.command()
@click.option("--seed", type=int, help="The programs are those of this seed.  [default: any]")
@click.option("--first", default=0, show_default=True, help="The number of the first program.")
@click.option("--programs", type=click.IntRange(min=1), help="Try so many programs.")
@click.option("--seconds", type=click.FloatRange(min=0), help="Begin no program after this time.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of processes.")
@click.option("--reduce", default=30.0, show_default=True, help="Seconds for making a failing program small.")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="Write the failing programs there.")
def fuzz(
    seed: int | None,
    first: int,
    programs: int | None,
    seconds: float | None,
    jobs: int,
    reduce: float,
    save: Path | None,
) -> None:
    """Try random programs; exit with status 1 if one of them shows a fault."""
    if programs is None and seconds is None:
        seconds = 60.0
    seed = SystemRandom().randrange(10**6) if seed is None else seed
    print(f"seed {seed}", flush=True)
    done, failing, known = 0, 0, {}
    for said in tried(seed, first, programs, seconds, jobs):
        if isinstance(said, int):
            done += said
            continue
        failing += 1
        if said.failure not in known:
            known[said.failure] = said
            _show(said, seed, reduce, save)
    faults = "no fault" if not known else f"{len(known)} faults in {failing} programs"
    print(f"{done} programs of seed {seed}, and {len(kept())} kept ones as seeds: {faults}")
    sys.exit(1 if known else 0)


def _show(found: Found, seed: int, seconds: float, save: Path | None) -> None:
    print(f"\n{found.failure}\n  --seed {seed} --first {found.number} --programs 1", flush=True)
    small = reduced(found, seconds) if seconds and found.failure.oracle not in DEADLY else found.program.text
    print("\n".join(f"    {line}" for line in small.splitlines()), flush=True)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        name = "-".join(word for word in (found.failure.oracle, str(seed), str(found.number)) if word)
        for ending, text in (("", small), ("-whole", found.program.text), ("-before", found.program.before)):
            (save / f"{name}{ending}{SUFFIX}").write_text(text, encoding="utf-8", errors="replace")


if __name__ == "__main__":
    fuzz()
