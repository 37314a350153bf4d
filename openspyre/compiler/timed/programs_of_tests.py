"""Small programs with layouts, for tests of divisions."""

from __future__ import annotations

from openspyre.compiler.ir import Program
from openspyre.compiler.text import parse_program


def _laid(rows: int, columns: int) -> str:
    return f"layout [{-(-columns // 64)}, {rows}, 64] [64, {columns}, 1] SEN169_FP16 STANDARD"


def product(m: int, k: int, n: int) -> Program:
    """a @ b in 16 bits."""
    return parse_program(f"""program "product" pool 0
buffer "a" input float16 [{m}, {k}] [{k}, 1] {_laid(m, k)}
buffer "b" input float16 [{k}, {n}] [{n}, 1] {_laid(k, n)}
buffer "c" output float16 [{m}, {n}] [{n}, 1] {_laid(m, n)}
op "mm" batchmatmul
  dim "m" {m}
  dim "n" {n}
  dim "k" {k} reduced
  read "a" float16 0 [{k}, 0, 1]
  read "b" float16 0 [0, 1, {n}]
  write "c" float16 0 [{n}, 1, 0]
""")


def gated(m: int, k: int, n: int) -> Program:
    """silu(a @ b) * (a @ c): three results between products and maps."""
    temps = "\n".join(
        f'buffer "{name}" temp float16 [{m}, {n}] [{n}, 1] {_laid(m, n)}' for name in ("gate", "open", "up")
    )
    products = "\n".join(
        f"""op "{out}" batchmatmul
  dim "m" {m}
  dim "n" {n}
  dim "k" {k} reduced
  read "a" float16 0 [{k}, 0, 1]
  read "{weight}" float16 0 [0, 1, {n}]
  write "{out}" float16 0 [{n}, 1, 0]"""
        for weight, out in (("b", "gate"), ("c", "up"))
    )
    return parse_program(f"""program "gated" pool 0
buffer "a" input float16 [{m}, {k}] [{k}, 1] {_laid(m, k)}
buffer "b" input float16 [{k}, {n}] [{n}, 1] {_laid(k, n)}
buffer "c" input float16 [{k}, {n}] [{n}, 1] {_laid(k, n)}
{temps}
buffer "out" output float16 [{m}, {n}] [{n}, 1] {_laid(m, n)}
{products}
op "silu" silu
  dim "i" {m}
  dim "j" {n}
  read "gate" float16 0 [{n}, 1]
  write "open" float16 0 [{n}, 1]
op "mul" mul
  dim "i" {m}
  dim "j" {n}
  read "open" float16 0 [{n}, 1]
  read "up" float16 0 [{n}, 1]
  write "out" float16 0 [{n}, 1]
""")
