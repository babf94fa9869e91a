"""The rules: one folder per family, one file per rule."""
