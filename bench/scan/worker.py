"""The scanning process: one line of JSON for each call and dtype. Started by `python -m bench.scan`."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from dataclasses import asdict

import torch

from bench.scan.calls import calls
from bench.scan.measure import measure
from bench.scan.operands import DTYPES


def main() -> None:
    """Lines go to standard output as they are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for call in calls():
        for dtype in DTYPES:
            if re.search(options.only, f"{call.name} {str(dtype).removeprefix('torch.')}"):
                print(json.dumps(asdict(measure(call, dtype)) | {"statement": call.statement}), flush=True)


if __name__ == "__main__":
    main()
