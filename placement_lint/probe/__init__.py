"""Probes: every finding can be proved, by running the flagged pattern beside a repaired control.

PyTorch is imported in the process that runs the arms (worker.py, bench.py) and nowhere else.
"""
