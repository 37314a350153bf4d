"""python -m tests.independent DIR --image 0=x.npy ... --out DIR: one launch, arguments from and to files."""

import argparse
from pathlib import Path

import numpy as np

from . import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.independent", description=__doc__)
    parser.add_argument("bundle", type=Path, help="directory of bundle.mlir and sdsc_<i>.json")
    parser.add_argument("--image", action="append", default=[], metavar="I=FILE", help="device bytes of argument I")
    parser.add_argument("--out", type=Path, required=True, help="directory for arg<I>.npy as they are afterwards")
    options = parser.parse_args()
    files = dict(image.split("=", 1) for image in options.image)
    images = [np.load(files[str(i)]).view(np.uint8).reshape(-1) for i in range(len(files))]
    (after,) = run([options.bundle], [images])
    options.out.mkdir(parents=True, exist_ok=True)
    for i, image in enumerate(after):
        np.save(options.out / f"arg{i}.npy", image)


if __name__ == "__main__":
    main()
