"""One file a format; each has ``render(run, stream)``."""
