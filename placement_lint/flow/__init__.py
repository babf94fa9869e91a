"""Flow analysis: derives events for the operations of a program on tensors, modules and optimizers.

The packages import each other in one direction; ``tests/flow/test_layers.py`` lists the order and its exceptions.
"""
