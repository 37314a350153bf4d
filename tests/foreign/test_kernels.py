"""Kernel directories of other compilers under torch: compiled as a back end does, prepared, launched on tensors of the card."""

import json

import pytest
import torch
from foreign.handmade import softmax

from openspyre.artifact.bundle import bundle_texts
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.command import main
from torch_spyre import _C


@pytest.fixture
def kernel(tmp_path):
    directory = tmp_path / "kernel"
    directory.mkdir()
    for name, text in bundle_texts(softmax(8, 128, 4)).items():
        (directory / name).write_text(text)
    return directory


def launched(kernel):
    x = torch.randn(8, 128).half().to("spyre")
    y = torch.zeros_like(x)
    _C.launch_jobplan(_C.prepare_kernel(kernel), [x, y])
    torch.testing.assert_close(y.cpu().float(), torch.softmax(x.cpu().float(), -1), rtol=2.0**-6, atol=2.0**-14)


def test_a_kernel_directory_runs_on_tensors(kernel):
    launched(kernel)


def test_a_compiled_kernel_needs_nothing_but_its_spyre_code(kernel, capsys):
    assert main(["compile", str(kernel)]) == 0
    written = capsys.readouterr().out.split()
    assert [path.removeprefix(str(kernel)) for path in written] == [
        "/spyreCodeDir/init.bin", "/spyreCodeDir/spyrecode.json", "/loadprogram_to_device/kernel-SenProgSend/init.txt"
    ]  # fmt: skip
    rows = (kernel / "loadprogram_to_device" / "kernel-SenProgSend" / "init.txt").read_text()
    assert (
        b"".join(bytes.fromhex(row)[::-1] for row in rows.splitlines()[1:])
        == (kernel / "spyreCodeDir" / "init.bin").read_bytes()
    )
    for file in kernel.glob("sdsc_*.json"):
        file.unlink()
    (kernel / "bundle.mlir").unlink()
    launched(kernel)


def test_arguments_that_do_not_fit_are_refused(kernel):
    plan = _C.prepare_kernel(kernel)
    x = torch.randn(8, 128).half().to("spyre")
    with pytest.raises(InvalidArgument, match="takes 2 tensors, arg_0, arg_1; 1 were given"):
        _C.launch_jobplan(plan, [x])
    with pytest.raises(InvalidArgument, match="it has 128 bytes, the kernel reaches byte 2047"):
        _C.launch_jobplan(plan, [x, torch.zeros(64, dtype=torch.float16, device="spyre")])
    with pytest.raises(InvalidArgument, match="a tensor of the card"):
        _C.launch_jobplan(plan, [x, torch.zeros(8, 128, dtype=torch.float16)])


def plan_of(kernel):
    return json.loads((kernel / "spyreCodeDir" / "spyrecode.json").read_text())


MISTAKES = {
    "no plan": (lambda plan: plan.pop("JobExecPlan"), "JobPreparationPlan and JobExecPlan"),
    "one command": (lambda plan: plan["JobPreparationPlan"].pop(), "at least 2 commands, Allocate first"),
    "another order": (lambda plan: plan["JobPreparationPlan"].reverse(), "Allocate first"),
    "no compute": (lambda plan: plan["JobExecPlan"].pop(), "ComputeOnDevice"),
    "no properties": (lambda plan: plan["JobExecPlan"][0].pop("properties"), "`command` and `properties`"),
    "another segment": (lambda plan: plan["JobPreparationPlan"][1]["properties"].update(dev_ptr="128"), "no stick of the program's segment"),
    "a number as a number": (lambda plan: plan["JobPreparationPlan"][1]["properties"].update(size=7), "decimal number as text"),
    "a path": (lambda plan: plan["JobPreparationPlan"][1]["properties"].update(init_bin_file="../x"), "a file beside it"),
    "another size": (lambda plan: plan["JobPreparationPlan"][1]["properties"].update(size="99999999"), "at least 99999999 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_malformed_spyre_code_is_refused_in_words(kernel, mistake):
    assert main(["compile", str(kernel)]) == 0
    change, said = MISTAKES[mistake]
    plan = plan_of(kernel)
    change(plan)
    (kernel / "spyreCodeDir" / "spyrecode.json").write_text(json.dumps(plan))
    with pytest.raises(InvalidArgument, match=said):
        _C.prepare_kernel(kernel)


def test_an_image_that_is_no_program_is_refused(kernel):
    assert main(["compile", str(kernel)]) == 0
    image = kernel / "spyreCodeDir" / "init.bin"
    image.write_bytes(image.read_bytes()[::-1])
    with pytest.raises(InvalidArgument, match="no program of this card"):
        _C.prepare_kernel(kernel)
