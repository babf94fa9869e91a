"""The language server: findings, their fixes and the placements behind them, in an editor, during typing.

It has two processes. This one handles the protocol, documents and settings; it imports libcst and the rules' checks
only as far as needed, and never PyTorch. The other one, ``worker``, analyses texts, so that an edit is answered at once
however long an analysis takes, and so that an analysis that hangs can be ended.
"""
