"""One program analysed: its own statements first, then what nobody calls."""
