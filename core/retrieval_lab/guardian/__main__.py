"""Run the guardian as a script: `python -I -S PATH_OF_THIS_FILE HOME SOCKETS PROGRAMS ACCOUNT`."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    # At the end: the folder holds modules, such as `types`, whose names the standard library has too.
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    importlib.import_module("guardian.supervisor").main(sys.argv[1:])
