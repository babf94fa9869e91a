"""Fixes, applied and written."""
