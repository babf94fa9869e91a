"""How long placement-lint takes beside its peers, on public packages: ``python -m tests.bench``."""
