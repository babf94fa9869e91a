"""Analyse one program: its own statements first, then the entry points that nothing calls."""
