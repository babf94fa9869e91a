"""The language server: the findings, their fixes and the placements behind them, in an editor, while one types.

Two processes. This one speaks the protocol and knows documents and settings; it imports neither libcst nor the rules'
checks more than it must, and never PyTorch. The other one, ``worker``, analyses texts, so that an edit is answered at
once however long an analysis takes, and so that an analysis that goes wrong can be ended.
"""
