"""Limits on the size of values: the analysis treats a larger value as unknown."""

from __future__ import annotations

# Characters of a string that is computed from others; a literal may be of any length.
LONGEST_TEXT = 4_096
# Bits of an integer that is computed from others.
WIDEST_INTEGER = 256
# The width or precision that a format specification may name.
WIDEST_FIELD = 1_024
# Items that a list grows to one by one, and numbers of a range; in a longer list the last item represents the
# rest.
LONGEST = 24
# Items of a list or tuple that is concatenated from others.
MOST_ITEMS = 1_024
# Nesting depth of lists, tuples and dicts, and of the parts of unknown values.
MOST_NESTED = 64
# How often a walk over a value may visit a list, tuple or dict again: each `x = (x, x)` doubles the number of
# visits.
MOST_REPEATED = 64
