"""What the analysis knows while it runs: the heap, modules, containers, frames, options and budgets."""
