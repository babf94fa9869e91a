"""Flow analysis: what a program does to its tensors, modules and optimizers, told as events.

The packages import each other in one direction; ``tests/flow/test_layers.py`` holds the order and what is left to do.
"""
