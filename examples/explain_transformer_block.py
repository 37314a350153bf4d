"""How fast would a transformer block be on a real card, what bounds it, and what would make it faster?

Run it with `python examples/explain_transformer_block.py [page.html]`. It prints the answer, op by op, and writes it as a page to click through.
The block is that of transformer_block.py.
"""

import sys
import tempfile
from pathlib import Path

import torch

import torch_spyre

sys.path.insert(0, str(Path(__file__).parent))
from transformer_block import HIDDEN, TOKENS, Block, rotary_tables


@torch.no_grad()
def main(page: Path) -> None:
    block = Block().half().to("spyre")
    inputs = [tensor.half().to("spyre") for tensor in (torch.randn(1, TOKENS, HIDDEN), *rotary_tables(TOKENS))]

    explanation = torch_spyre.explain(block, *inputs)
    print(explanation)

    with torch.spyre.predicted_time() as predicted:
        block(*inputs)
    print(
        f"operator by operator: {predicted.total_us:.1f} us in {len(predicted.launches)} launches, one graph has {len(explanation.launches)}"
    )

    explanation.html(page)
    print(f"as a page: {page.resolve()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "transformer_block.html")
