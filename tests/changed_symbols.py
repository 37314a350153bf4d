"""Run as a script: prints every symbol of torch that another object stands for, that got other code, or that is new, once the
package is loaded and has compiled a graph. torch alone compiles one first, so that what Dynamo changes itself is not counted."""

import ctypes
import importlib
import json
import os
import sys
import types

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
import torch.utils.dlpack

_DEFINITION = {types.BuiltinFunctionType: 16, types.MethodDescriptorType: 40}  # offsets of the PyMethodDef in CPython
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def code_in_c(symbol: object) -> int | None:
    """The address a function of C runs at; it can be exchanged without exchanging the function."""
    if type(symbol) not in _DEFINITION:
        return None
    definition = ctypes.c_void_p.from_address(id(symbol) + _DEFINITION[type(symbol)]).value
    return ctypes.c_void_p.from_address(definition + _POINTER).value


def symbols() -> dict[str, tuple[object, int | None]]:
    """All that modules and classes of torch hold, by name."""
    found: dict[str, tuple[object, int | None]] = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "torch" or "spyre" in name:
            continue
        for key, value in list(vars(module).items()):
            found[f"{name}.{key}"] = (value, code_in_c(value))
            if isinstance(value, type) and str(value.__module__).split(".")[0] == "torch":
                own = f"{value.__module__}.{value.__qualname__}"
                found |= {f"{own}.{k}": (v, code_in_c(v)) for k, v in list(vars(value).items())}
    return found


def compile_one(device: str) -> None:
    model = torch.nn.Linear(4, 4).to(device)
    torch.compile(lambda x: model(x).softmax(-1) * float("inf"), backend="inductor")(torch.ones(4, 4, device=device))


def main() -> None:
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(4))
    importlib.import_module("torch._inductor.compile_fx")
    importlib.import_module("torch._inductor.fx_passes.joint_graph")
    before = symbols()
    import torch_spyre

    torch_spyre._autoload()
    compile_one("spyre")
    after = symbols()
    both = [name for name in after if name in before]
    homes = {name.rpartition(".")[0] for name in before}
    print(
        json.dumps(
            {
                "replaced": [n for n in both if callable(after[n][0]) and after[n][0] is not before[n][0]],
                "extended": [n for n in both if after[n][0] is before[n][0] and after[n][1] != before[n][1]],
                "new": [n for n in after if n not in before and n.rpartition(".")[0] in homes and _ours(after[n][0])],
            }
        )
    )


def _ours(symbol: object) -> bool:
    return str(getattr(symbol, "__module__", "")).startswith("torch_spyre") or hasattr(symbol, "_torch_spyre_seam")


if __name__ == "__main__":
    main()
