"""Compares the run time of placement-lint with that of its peers, on public packages: ``python -m tests.bench``."""
