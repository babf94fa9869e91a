"""How large a value may become: beyond these the analysis gives it up, whatever the program computes."""

from __future__ import annotations

# Characters of a string that is computed from others; a literal may be as long as the text it stands in.
LONGEST_TEXT = 4_096
# Bits of an integer that is computed from others.
WIDEST_INTEGER = 256
# The width or precision that a format specification may name.
WIDEST_FIELD = 1_024
# Items that a list grows to one by one, and numbers of a range; longer lists are all alike: the last item stands for
# the rest.
LONGEST = 24
# Items of a list or tuple that is put together from others.
MOST_ITEMS = 1_024
# Lists, tuples and dicts inside each other, and unknown values that are parts of each other.
MOST_NESTED = 64
# How often a walk over a value may come to a list, tuple or dict where it has been: twice as often with each
# `x = (x, x)`.
MOST_REPEATED = 64
