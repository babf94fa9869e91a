"""placement-lint: finds tensors, modules and optimizers that are in the wrong place."""

__version__ = "0.1.0"
