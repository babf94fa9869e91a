"""Triage checks: which files and definitions can have a finding at all, decided before they are analysed."""
