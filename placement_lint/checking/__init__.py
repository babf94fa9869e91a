"""The check of one file: from its text to its findings."""
