"""`python -m delaymq` is the `delaymq` command."""

import sys

from delaymq.cli import main

sys.exit(main())
