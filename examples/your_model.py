"""What the card makes of a model of yours: operators it has none for, errors beside float32, predicted time, and a page of each.

    python examples/your_model.py mine.py:build --out build/mine

`build()` in mine.py returns (module, inputs): a module on the CPU and a tuple of its inputs. Without an argument: a block of ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import torch_spyre

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]


def block() -> Built:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
    return layer.eval(), (torch.randn(2, 64, 256),)


def builder(place: str) -> Callable[[], Built]:
    """file.py:function"""
    path, colon, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("yours", path) if colon else None
    if spec is None or spec.loader is None or not Path(path).is_file():
        sys.exit(f"{place!r} is no file.py:function, models/mine.py:build for example")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        sys.exit(f"{path} has no function {name!r}")
    return getattr(module, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", nargs="?", help="file.py:function that returns (module, inputs)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/your_model"), help="where the pages go (build/your_model)"
    )
    told = parser.parse_args()
    model, inputs = (builder(told.place) if told.place else block)()
    told.out.mkdir(parents=True, exist_ok=True)

    comparison = torch_spyre.compare(model, *inputs, dtype=torch.float16)
    print(comparison)
    here = model.half().to("spyre").requires_grad_(False)
    given = [x.half().to("spyre") if x.is_floating_point() else x.to("spyre") for x in inputs]
    explanation = torch_spyre.explain(here, *given)
    fallbacks = [fallback.name for fallback in explanation.fallbacks]
    print("operators that ran on the CPU:", ", ".join(fallbacks) or "none")
    print(f"predicted: {explanation.totals.card_us:.1f} us on the card in {len(explanation.launches)} launch(es)")
    print("where error enters:", comparison.html(told.out / "errors.html"))
    explanation.html(told.out / "time.html")
    print("how long it takes:", told.out / "time.html")


if __name__ == "__main__":
    main()
