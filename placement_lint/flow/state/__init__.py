"""The state of the analysis while it runs: the heap, modules, containers, frames, options and budgets."""
