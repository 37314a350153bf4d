"""torch_spyre: the Spyre card as a PyTorch device.

PyTorch finds this package through its `torch.backends` entry point and calls `_autoload`, so `import torch` is all a user needs.
"""

import importlib
import sys
from typing import Any

__version__ = "0.1.0"
_registered = False


def _autoload() -> None:
    """Make the device known to torch. Starts nothing and prints nothing; a failure is told, and leaves torch usable without it."""
    global _registered
    if _registered:
        return
    _registered = True
    try:
        from torch_spyre.device import registration

        registration.register()
    except Exception as problem:
        # Neither a warning nor a log: both can be turned into exceptions or silence, and torch must survive and the user know.
        print(
            f"torch_spyre could not be loaded, the spyre device is not available ({type(problem).__name__}: {problem}); "
            "`openspyre doctor` tells more",
            file=sys.stderr,
        )


def __getattr__(name: str) -> Any:
    """Documented names load when they are first used."""
    if name == "export_bundle":
        return importlib.import_module(f"{__name__}.inductor.launching.export").export_bundle
    if name == "explain":
        return importlib.import_module(f"{__name__}.inductor.launching.explain").explain
    if name == "compare":
        return importlib.import_module(f"{__name__}.comparing.compare").compare
    if name == "compile_report":
        return importlib.import_module(f"{__name__}.inductor.reporting.report").compile_report
    if name in ("_C", "_inductor", "constants", "device", "model_utils", "ops", "profiler", "streams"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Last, because torch calls _autoload back while it is being imported. The second call serves TORCH_DEVICE_BACKEND_AUTOLOAD=0.
import torch  # noqa: E402, F401

_autoload()
