"""Analyse one program: first its top-level statements, then the entry points that nothing calls."""
