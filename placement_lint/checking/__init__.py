"""One file to its findings."""
