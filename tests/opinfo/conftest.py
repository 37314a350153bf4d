"""The harness takes its judge from the tests of graphs."""

import sys
from pathlib import Path

from shards import ROOMS

sys.path += [str(Path(room)) for room in ROOMS if str(Path(room)) not in sys.path]
