"""Report formats, one per module; each has ``render(run, stream)``."""
