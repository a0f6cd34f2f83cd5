"""`python -m retrieval_lab`: the command line without the explorer."""

import sys

from retrieval_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
