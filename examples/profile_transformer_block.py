"""Where does the time of a transformer block go: on this host, and on a real card?

Run it with `python examples/profile_transformer_block.py [trace.json]`. It profiles the block of transformer_block.py with torch.profiler, prints a
summary, and leaves a trace for Perfetto and chrome://tracing.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch.profiler import profile, record_function

from openspyre.tools.tracing.reading import read_trace
from openspyre.tools.tracing.summary import summarise, text_of

sys.path.insert(0, str(Path(__file__).parent))
from transformer_block import HIDDEN, TOKENS, Block, rotary_tables


@torch.no_grad()
def main(trace: Path) -> None:
    block = Block().half().to("spyre")
    compiled = torch.compile(block)
    inputs = [tensor.half().to("spyre") for tensor in (torch.randn(1, TOKENS, HIDDEN), *rotary_tables(TOKENS))]
    compiled(*inputs), block(*inputs)  # compiled before the clock runs

    with profile() as profiler:
        with record_function("one graph"):
            compiled(*inputs).cpu()
        with record_function("operator by operator"):
            block(*inputs).cpu()

    print(profiler.key_averages().table(sort_by="self_device_time_total", row_limit=8, max_name_column_width=40))
    trace.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(trace))
    print(text_of(summarise(read_trace(trace), top=5)))
    print(f"\nthe trace: {trace.resolve()}")
    print(f"open it in https://ui.perfetto.dev or chrome://tracing, or ask `openspyre trace {trace}`")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*deprecated.*")
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "transformer_block.trace.json")
