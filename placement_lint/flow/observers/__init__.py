"""Observers: they subscribe to signals of the analysis and emit events."""
