"""`python -m loopai_trainer`: the same program as the console script `trainer`."""

import sys

from loopai_trainer.cli.fast import main

if __name__ == "__main__":
    sys.exit(main())
