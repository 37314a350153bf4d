"""SPYRE_DUMP_COST: what the published formula says of graphs, while they are compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

SOFTMAX = """
import torch
x = torch.empty(4096, 2048, dtype=torch.float16, device="spyre")
torch.compile(lambda x: torch.softmax(x, -1))(x)
"""


def test_the_documents_softmax_is_dumped_with_its_320_us_each_time(tmp_path: Path) -> None:
    file = tmp_path / "cost.jsonl"
    env = os.environ | {"SPYRE_DUMP_COST": "1", "SPYRE_DUMP_COST_FILE": str(file), "OPENSPYRE_CARD": "null"}
    env["OPENSPYRE_CACHE_DIR"] = str(tmp_path / "cache")
    for _ in range(2):  # what lies on disk is compiled again, to be told
        done = subprocess.run([sys.executable, "-c", SOFTMAX], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "320.0 us by the published formula" in done.stderr, done.stderr
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == second and round(first["total_us"], 1) == 320.0
    assert first["hbm_bytes"] == 2 * 2 * 4096 * 2048 and len(first["groups"]) == 1
