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


def watched() -> None:
    from rich.console import Console

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
            with Path(os.devnull).open("w") as nowhere:
                console = Console(record=True, width=132, file=nowhere, force_terminal=True)
                console.print(view(sample, Cards(1, 112 << 30), openspyre_version(), console.width))
        finally:
            process.kill()
            process.wait()
        drawn = console.export_svg(title="openspyre smi top", unique_id="top")
        drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # fonts of another host
        (ROOT / "docs/monitoring_top.svg").write_text(drawn)


def main() -> None:
    explained()
    profiled()
    watched()


if __name__ == "__main__":
    main()
