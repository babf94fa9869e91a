"""Applies fixes and writes the fixed files."""
