"""Writes the pictures of the pages, with the tools that they are pictures of.

`python docs/pictures.py`, after `make browser`: the page that explains the transformer block of examples/ out of a headless
Chromium, a profile of it by `openspyre trace --picture`, `openspyre smi top` by rich.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from chromium import Chromium, find  # noqa: E402

DRAWINGS = ("graph", "timeline", "scratchpads", "roofline")
# A drawing alone has no style sheet: its own goes into it. Titles name files of this machine. Of the graph, which is long, only the beginning.
ALONE = """(id => {
  const drawing = byId(id).cloneNode(true);
  drawing.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  drawing.removeAttribute("style");
  drawing.querySelectorAll("title").forEach(title => title.remove());
  if (id === "graph") drawing.setAttribute("viewBox", drawing.getAttribute("viewBox").replace(/\\d+ (\\d+)$/, "1430 $1"));
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = "text { font: 11px system-ui, sans-serif; fill: #525252; } svg { background: #fafafa; }";
  drawing.prepend(style);
  return new XMLSerializer().serializeToString(drawing);
})"""


# What the live view is a picture of.
TRAIN = """
import sys, torch
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).half().to("spyre")
step, x = torch.compile(model), torch.randn(512, 1024).half().to("spyre")
with torch.no_grad():
    step(x).cpu()
    print("ready", flush=True)
    while True: step(x).cpu()
"""

# The hunt of debugging.md, its fault planted in the program that the card runs.
HUNT = """
import sys, torch
torch.manual_seed(0)
def layer(x, w):
    h = torch.nn.functional.gelu(x @ w)
    h = torch.nn.functional.layer_norm(h + x, (128,))
    return torch.softmax(h * 2, -1)
x, w = torch.randn(33, 128).half().to("spyre"), torch.randn(128, 128).half().to("spyre")
with torch.no_grad(), torch.spyre.save_launches(sys.argv[1]):
    torch.compile(layer)(x, w)
"""


def explained() -> None:
    browser = find()
    if browser is None:
        sys.exit("there is no Chromium: make browser")
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "page.html"
        subprocess.run(
            [sys.executable, ROOT / "examples/explain_transformer_block.py", page],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with Chromium(browser, Path(place)) as chromium:
            chromium.open(f"file://{page}")
            for name in DRAWINGS:
                (ROOT / "docs" / f"explain_{name}.svg").write_text(chromium.evaluate(f"{ALONE}('{name}')") + "\n")


def profiled() -> None:
    """Where the steps come from is named by files of this machine: left out."""
    with tempfile.TemporaryDirectory() as place:
        trace, picture = Path(place) / "trace.json", Path(place) / "trace.svg"
        example = [sys.executable, "-W", "ignore", ROOT / "examples/profile_transformer_block.py", trace]
        subprocess.run(example, check=True, stdout=subprocess.DEVNULL)
        command = [sys.executable, "-m", "openspyre.tools.command", "trace", trace, "--picture", picture]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        drawn = re.sub(r"<title>.*?</title>", "", picture.read_text(), flags=re.DOTALL)
        (ROOT / "docs/profiling_trace.svg").write_text(re.sub(r"thread \d+", "thread 4711", drawn))


def drawn_terminal(title: str, name: str, width: int, what: Any) -> str:
    from rich.console import Console

    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True)
        console.print(what)
    drawn = console.export_svg(title=title, unique_id=name)
    return re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # fonts of another host


def hunted() -> None:
    from rich.text import Text

    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "model.py").write_text(HUNT)
        subprocess.run([sys.executable, "-W", "ignore", "model.py", "saved"], cwd=place, check=True)
        program = Path(place) / "saved/launch_00000/card.program"
        program.write_text(program.read_text().replace('"add"', '"sub"', 1))
        command = [sys.executable, "-m", "openspyre.tools.command", "bisect", "saved/launch_00000"]
        told = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
        drawn = drawn_terminal("openspyre bisect saved/launch_00000", "hunt", 110, Text(told.replace(f"{place}/", "")))
    (ROOT / "docs/debugging_bisect.svg").write_text(drawn)


def watched() -> None:
    from openspyre.tools.host import openspyre_version
    from openspyre.tools.monitoring.live import view
    from openspyre.tools.monitoring.samples import Monitor
    from openspyre.tools.monitoring.tables import Cards

    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "train.py").write_text(TRAIN)
        search = {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
        process = subprocess.Popen(
            ["python", "train.py"], cwd=place, env=os.environ | search, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            sample = Monitor().sample(2)
        finally:
            process.kill()
            process.wait()
    shown = view(sample, Cards(1, 112 << 30), openspyre_version(), 132)
    (ROOT / "docs/monitoring_top.svg").write_text(drawn_terminal("openspyre smi top", "top", 132, shown))


def main() -> None:
    explained()
    profiled()
    watched()
    hunted()


if __name__ == "__main__":
    main()
