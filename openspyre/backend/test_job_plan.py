"""The plan's order, fields and addresses follow the documented rules."""

from dataclasses import replace

import pytest

from fuzz import samples
from openspyre.artifact import Emitted
from openspyre.backend import compile_emitted
from openspyre.backend.job_plan import Allocate, ComputeOnDevice, InitTransfer, image, job_plan, problems, spyre_code
from openspyre.program.model import Program

SEGMENT_7 = 0x1C_0000_0000


@pytest.mark.parametrize("bundle", samples.samples(), ids=lambda bundle: bundle.name)
def test_every_plan_is_one_a_runtime_accepts(bundle: Emitted) -> None:
    program = compile_emitted(bundle)
    plan = job_plan(program)
    assert problems(plan) == []
    code = spyre_code(plan)
    assert [step["command"] for step in code["JobPreparationPlan"]] == ["Allocate", "InitTransfer"]
    assert [step["command"] for step in code["JobExecPlan"]] == ["ComputeOnHost", "DataTransfer", "ComputeOnDevice"]


def test_numbers_are_decimal_texts_and_addresses_lie_in_the_programs_segment() -> None:
    program = compile_emitted(samples.matmul())
    sticks = -(-len(image(program)) // 128) * 128
    code = spyre_code(job_plan(program))
    transfer, compute = code["JobPreparationPlan"][1], code["JobExecPlan"][2]
    assert transfer["properties"] == {"init_bin_file": "init.bin", "dev_ptr": str(SEGMENT_7), "size": str(sticks)}
    assert compute["properties"] == {"job_bin_ptr": str(SEGMENT_7)}
    correction = code["JobExecPlan"][1]["properties"]
    assert correction == {
        "dirn": "false",
        "host_handle": "correction",
        "size": "128",
        "dev_ptr": str(SEGMENT_7 + sticks),
    }


def test_a_launch_supplies_addresses_the_pool_and_scalars_in_order() -> None:
    host = spyre_code(job_plan(compile_emitted(samples.pointwise())))["JobExecPlan"][0]["properties"]
    assert isinstance(host, dict)
    assert host["ishape"] == ["5"]
    assert host["hcm"]["words"] == ["address of x", "address of s", "address of out", "address of pool", "scalar slope"]


def test_a_program_that_takes_nothing_needs_no_correction() -> None:
    plan = job_plan(Program("empty", (), (), ()))
    assert plan.execution == (ComputeOnDevice(SEGMENT_7),)
    assert problems(plan) == []


def test_a_plan_out_of_order_or_out_of_its_segment_is_refused() -> None:
    plan = job_plan(compile_emitted(samples.matmul()))
    assert "host" in problems(replace(plan, execution=plan.execution[::2]))[0]
    assert "Allocate" in problems(replace(plan, preparation=plan.preparation[::-1]))[0]
    elsewhere = (Allocate(128), InitTransfer("init.bin", 64, 128))
    assert "0x40" in problems(replace(plan, preparation=elsewhere))[0]
