"""A kernel directory as another compiler leaves it (`sdsc_*.json` and `bundle.mlir`), checked, shown and executed. No torch."""

import tempfile
from pathlib import Path

import numpy as np

from openspyre.spec.encodings import sen169_decode
from openspyre.tools.command import main

kernel = (
    Path(__file__).parent / "kernel_directory"
)  # a softmax over 8 rows of 128, on four cores, mostly in their scratchpads

x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float16)
with tempfile.TemporaryDirectory() as place:
    np.save(f"{place}/x.npy", x)
    main(["verify", str(kernel)])
    main(["inspect", str(kernel)])
    main(["run", str(kernel), "--arg", f"0={place}/x.npy", "--out", f"{place}/results"])
    image = np.load(f"{place}/results/segment_1.npy")

# The result as it lies on the card: two blocks of 64 columns, each with its 8 rows.
y = sen169_decode(image.view(np.uint16)).reshape(2, 8, 64).transpose(1, 0, 2).reshape(8, 128)
exact = np.exp(x.astype(np.float64))
exact /= exact.sum(-1, keepdims=True)
error = np.abs(y / exact - 1).max()
print(f"largest relative error {error:.4f}, every op rounding to 9 bits of mantissa")
assert error < 2**-6
