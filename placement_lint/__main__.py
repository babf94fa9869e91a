"""``python -m placement_lint``."""

import sys

from placement_lint.cli import main

sys.exit(main())
