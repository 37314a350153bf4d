"""A headless Chromium for tests: found in PATH, or fetched once into the environment; driven over a pipe, with real clicks.

`python tests/chromium.py DIRECTORY` fetches one, about 70 MB. Where that cannot be done it says why and does no harm.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Built for containers: it brings the libraries that a bare system does not have.
_PACKAGE = "@sparticuz/chromium@153.0.0"  # of npm
_SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
_FOLDER = "chromium"
_FLAGS = (
    "--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", "about:blank",
)  # fmt: skip


def find() -> Path | None:
    """The browser, if there is one."""
    known = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    fetched = Path(sys.prefix) / _FOLDER / "chromium"
    return next(map(Path, known), fetched if fetched.exists() else None)


def fetch(directory: Path) -> str:
    """Into the directory; what came of it in words."""
    if (directory / "chromium").exists() or find() is not None:
        return "there is a Chromium"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return f"no Chromium for {platform.system()} {platform.machine()}: the page's test will be skipped"
    try:
        import brotli  # type: ignore[import-untyped, import-not-found]

        packed = _packed()
        if base64.b64encode(hashlib.sha512(packed).digest()).decode() != _SHA512:
            return "what came as Chromium is something else: the page's test will be skipped"
        building = directory.with_name(f".{_FOLDER}.{os.getpid()}")
        building.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as package:
            for name in ("chromium", "al2023.tar", "swiftshader.tar"):
                file = package.extractfile(f"package/bin/{name}.br")
                assert file is not None
                content = brotli.decompress(file.read())
                if name.endswith(".tar"):
                    with tarfile.open(fileobj=io.BytesIO(content)) as inner:
                        inner.extractall(building, filter="data")
                else:
                    (building / name).write_bytes(content)
                    (building / name).chmod(0o755)
        building.rename(directory)
    except (ImportError, OSError, subprocess.SubprocessError, tarfile.TarError) as error:
        return f"no Chromium could be fetched ({error}): the page's test will be skipped"
    return f"Chromium is in {directory}"


def _packed() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm, which has it, is not installed")
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([npm, "pack", "--silent", _PACKAGE], cwd=place, check=True, capture_output=True, timeout=600)
        return next(Path(place).glob("*.tgz")).read_bytes()


def why_not(browser: Path) -> str | None:
    """What keeps it from starting on this host, if anything does."""
    try:
        with tempfile.TemporaryDirectory() as home, Chromium(browser, Path(home), patience=20) as chromium:
            chromium.open("data:text/html,here")
    except (AssertionError, OSError) as error:
        return str(error)
    return None


class Chromium:
    """One page in a browser. Context manager; everything waits at most `patience` seconds."""

    def __init__(self, browser: Path, home: Path, size: tuple[int, int] = (1280, 1000), patience: float = 60) -> None:
        self._patience = patience
        self._number, self._unread = 0, b""
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        beside = browser.resolve().parent / "lib"
        path = os.environ.get("LD_LIBRARY_PATH", "")
        env = os.environ | {"HOME": str(home), "LD_LIBRARY_PATH": f"{beside}:{path}" if beside.is_dir() else path}
        # The browser reads its pipe at 3 and writes at 4: a shell puts them there.
        put = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        flags = (*_FLAGS[:-1], f"--user-data-dir={home}/profile", f"--window-size={size[0]},{size[1]}", _FLAGS[-1])
        self._process = subprocess.Popen(
            ["bash", "-c", put, "chromium", str(browser), *flags],
            env=env, pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._session = ""

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def open(self, url: str) -> None:
        target = self._call("Target.createTarget", url=url)["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        until = time.monotonic() + self._patience
        while self.evaluate("document.readyState + ' ' + location.href") != f"complete {url}":
            assert time.monotonic() < until, f"{url} does not load"
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, element: str) -> None:
        """With the mouse, in the middle of what the expression gives: something that lies over it would get the click."""
        middle = (
            f"(e => {{ e.scrollIntoView({{block: 'center', inline: 'nearest'}}); const r = e.getBoundingClientRect();"
            f" return [r.x + r.width / 2, r.y + r.height / 2]; }})({element})"
        )
        x, y = self.evaluate(middle)
        for what in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self._call("Input.insertText", text=text)

    def picture(self, file: Path, clip: Mapping[str, float] | None = None) -> None:
        """A PNG of the page, or of a part of it."""
        wanted: dict[str, Any] = {"captureBeyondViewport": True}
        if clip is not None:
            wanted["clip"] = {**clip, "scale": 1}
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", **wanted)["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self._patience
        while True:
            while b"\0" not in self._unread:
                ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
                read = os.read(self._read, 1 << 16) if ready else b""
                assert read, f"the browser does not answer {method}"
                self._unread += read
            one, _, self._unread = self._unread.partition(b"\0")
            answer: dict[str, Any] = json.loads(one)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1])))
