"""Everything that a training on this node needs, in the order of the table in docs/gpu.md.

Tests import PyTorch and what needs it themselves: if that fails, the others still run.
"""

import json
import shutil
import time
from collections.abc import Callable
from math import isfinite, prod

import pytest

from rspo.config.experiment import base_name
from rspo.core.files import read_json_lines, write_text
from rspo.core.gpus import why_no_gpu
from rspo.core.tables import PROBLEMS, read_table
from rspo.pipeline import tasks
from rspo.pipeline.run import record
from rspo.rewards import is_correct
from rspo.rewards.verdict import CORRECT, INCORRECT
from rspo.training.logs import sampler_warning
from rspo.training.verl.checkpoints import RECORDS_FILE, last_step
from tests.gpu.settings import (
    JUDGED,
    KILLED,
    PROMPTS,
    SENT,
    STEPS,
    STEPS_OF_KILLED,
    TO_BE_KILLED,
    TRAINED,
    N,
    Settings,
)

pytestmark = pytest.mark.timeout(600)

Note = Callable[[str], None]
needs_packages = pytest.mark.needs("test_driver_and_packages")
needs_model = pytest.mark.needs("test_model_and_problems")
trains = pytest.mark.needs("test_flash_attn", "test_all_reduce", "test_model_and_problems")


@pytest.mark.timeout(300)
def test_driver_and_packages(settings: Settings, note: Note) -> None:
    import torch
    import verl
    import vllm
    from vllm.platforms import current_platform

    about = [f"{package.__name__} {package.__version__}" for package in (torch, vllm, verl)]
    if settings.device == "cuda":
        assert not (reason := why_no_gpu()), f"PyTorch uses no GPU: {reason}"
        assert not current_platform.is_cpu(), "vLLM is built for CPUs"
        device = torch.cuda.get_device_properties(0)
        memory = f"{device.total_memory / 1e9:.0f} GB"
        about = [f"{device.name} {memory}", f"CUDA {torch.version.cuda}", *about]
    # A training would find this out only after its first step's sampling.
    assert is_correct([r"\boxed{1/2}"], ["0.5"]) == [True], (
        "the verifier does not know that 1/2 = 0.5"
    )
    note(", ".join(about))


@needs_packages
@pytest.mark.timeout(120)
def test_flash_attn(settings: Settings, note: Note) -> None:
    if settings.device == "cpu":
        pytest.skip("not on a CPU")
    from rspo.training.verl.interface import FLASH_ATTN
    from rspo.training.verl.verl_config import verl_config
    from tests.gpu import attention

    model = verl_config(settings.experiment(), settings.cell(TRAINED)).actor_rollout_ref.model
    if (kind := model.override_config.attn_implementation) != FLASH_ATTN:
        pytest.skip(f"the config has attn_implementation: {kind}")
    parts = []
    wrong = []
    for name, shape in attention.SHAPES.items():
        ratio = attention.rounding_ratio(attention.flash_attention, "cuda", shape)
        parts.append(f"{ratio:.1f} (heads of {name})")
        if not ratio <= attention.ALLOWED:  # or not a number
            wrong.append(name)
    measured = f"its error is {', '.join(parts)} times that of PyTorch's attention in bfloat16"
    assert not wrong, f"{measured}; allowed: {attention.ALLOWED:g}"
    note(measured)


@needs_packages
def test_all_reduce(settings: Settings, note: Note) -> None:
    from tests.gpu import collectives

    most = _ranks_of_all_reduce(settings)
    for ranks in range(1, most + 1):
        seconds = collectives.all_reduce_seconds(ranks, settings.device)
    megabytes = collectives.ELEMENTS[settings.device] * 4 / 1e6
    library = "NCCL" if settings.device == "cuda" else "gloo"
    numbers = "1 rank" if most == 1 else f"1 to {most} ranks"
    note(f"{library}, {numbers}; {megabytes:.0f} MB in {1000 * seconds:.1f} ms with {most}")


@pytest.mark.needs("test_all_reduce")
def test_bandwidth_of_links(settings: Settings, note: Note) -> None:
    """No training needs this test: slow links, or a limit that is too high, make none wrong."""
    import torch

    from tests.gpu import collectives

    ranks = _ranks_of_all_reduce(settings)
    if ranks == 1:
        pytest.skip("one GPU has no links to others")
    seconds = collectives.all_reduce_seconds(ranks, settings.device)
    bandwidth = collectives.bandwidth(ranks, settings.device, seconds)
    least = 0.0
    if settings.device == "cuda":
        least = collectives.least_bandwidth(torch.cuda.get_device_name())
    measured = f"{bandwidth / 1e9:.2g} GB/s between {ranks} ranks"
    assert bandwidth >= least, f"{measured}; expected: {least / 1e9:.0f} GB/s"
    note(measured)


def _ranks_of_all_reduce(settings: Settings) -> int:
    """All GPUs that may be used; at least two ranks on a CPU."""
    return settings.ranks if settings.device == "cuda" else max(2, settings.ranks)


@needs_packages
def test_model_and_problems(settings: Settings, note: Note) -> None:
    from safetensors import safe_open

    from tests.gpu import base_model

    experiment = settings.experiment()
    for name in experiment.data_sets:
        settings.rspo("prepare", name)
    source = base_model.make_policy(settings)
    problems = sum(
        len(read_table(experiment.files.problems(name), PROBLEMS)) for name in experiment.data_sets
    )
    parameters = 0
    for file in experiment.files.policy(base_name(settings.model)).glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            names = tensors.keys()
            parameters += sum(prod(tensors.get_slice(name).get_shape()) for name in names)
    note(f"{source}, {parameters / 1e6:.0f}M parameters; {problems} problems")


@needs_model
@pytest.mark.timeout(300)
def test_local_engine(settings: Settings, note: Note) -> None:
    from tests.gpu import local_engine

    policy = settings.experiment().files.policy(base_name(settings.model))
    note(local_engine.compare(settings, policy))


@needs_model
@pytest.mark.timeout(400)
def test_vllm_sampling_qwen2(settings: Settings, note: Note) -> None:
    """With random weights, but in the architecture of the paper's models."""
    from tests.gpu import sampling

    folder = settings.folder / "qwen2"
    sampling.write_random_policy(
        folder, settings.experiment().files.policy(base_name(settings.model))
    )
    note(sampling.compare(settings, folder))


@trains
def test_verl_steps(settings: Settings, note: Note) -> None:
    cell = settings.cell(TRAINED)
    settings.rspo("train", cell)
    records = read_json_lines(settings.experiment().files.training_log(cell))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert all(isfinite(record["gradient_norm"]) for record in records), "a gradient is not finite"
    assert any(
        0 < record["zero_weight"] < 1 and record["gradient_norm"] > 0 for record in records
    ), "no step dropped some responses and trained on the others"
    warning = sampler_warning({cell: records})
    assert not warning, warning
    dropped = sum(round(record["zero_weight"] * PROMPTS * N) for record in records)
    parts = records[-1]["seconds"]
    note(
        f"{dropped} of {STEPS * PROMPTS * N} responses had weight 0 and were dropped; last step "
        f"{sum(parts.values()):.0f} s: "
        + ", ".join(f"{name} {seconds:.1f}" for name, seconds in parts.items())
    )


@trains
def test_judge_beside_verl(settings: Settings, note: Note) -> None:
    """The judge's server and the policy's share a GPU."""
    from tests.gpu import judge

    folder, cell = settings.folder / "judge", settings.cell(JUDGED)
    name = judge.write_judge(settings, folder)
    changes = judge.changes_with(settings, folder)
    experiment = settings.experiment(changes)
    write_text(experiment.files.judge_prompt, f"PROMPT = {judge.PROMPT!r}\n")
    record(tasks.fetch_judge(experiment))
    settings.rspo("train", cell, changes=changes)
    verdicts = [row["verdict"] for row in read_json_lines(experiment.files.verdicts(cell, "train"))]
    correct, valid = verdicts.count(CORRECT), verdicts.count(CORRECT) + verdicts.count(INCORRECT)
    assert 2 * valid > len(verdicts), (
        f"{name}: only {valid} of {len(verdicts)} replies are verdicts"
    )
    shutil.rmtree(experiment.files.folder(cell))
    note(f"{name}: {correct} of {len(verdicts)} different responses judged correct")


@pytest.mark.needs("test_flash_attn", "test_all_reduce")
@pytest.mark.timeout(1200)
def test_steps_of_paper_shape(settings: Settings, note: Note) -> None:
    """config/paper.yaml on all GPUs of the node, with random weights and without a download."""
    from tests.gpu import paper_step

    reason = paper_step.why_not(settings)
    if reason:
        pytest.skip(reason)
    note(paper_step.train(settings))


@trains
def test_weights_sent_to_the_sampler(settings: Settings, note: Note) -> None:
    from tests.gpu import weights

    sampler, cell = weights.train(settings), settings.cell(SENT)
    experiment = settings.experiment(weights.changes_for(settings))
    base, actor = (
        weights.load(experiment.files.policy(name)) for name in (base_name(settings.model), cell)
    )
    wrong, changed = weights.different(sampler, actor), weights.different(sampler, base)
    assert not wrong, f"{len(wrong)} of {len(sampler)} differ from the checkpoint's: {wrong[0]}"
    assert changed, "the training step has not changed the weights"
    shutil.rmtree(experiment.files.folder(cell))
    dtypes = sorted({str(weight.dtype).removeprefix("torch.") for weight in sampler.values()})
    note(
        f"all {len(sampler)} weights of the sampler equal the checkpoint's in "
        f"{' and '.join(dtypes)}; the step changed {len(changed)} of them"
    )


@trains
def test_kill_and_resume(settings: Settings, note: Note) -> None:
    """A fast GPU must not finish before the kill."""
    cell, experiment = settings.cell(KILLED), settings.experiment(TO_BE_KILLED)
    checkpoint = experiment.files.checkpoint(cell)
    process = settings.start("train", cell, changes=TO_BE_KILLED)
    while last_step(checkpoint) < 2:
        assert process.poll() is None, "the training ended before it could be killed"
        time.sleep(0.02)
    process.kill()
    process.wait()
    file = checkpoint / f"global_step_{last_step(checkpoint)}" / RECORDS_FILE
    before = json.loads(file.read_text())
    settings.rspo("train", cell, changes=TO_BE_KILLED)
    records = read_json_lines(experiment.files.training_log(cell))
    assert [record["step"] for record in records] == list(range(1, STEPS_OF_KILLED + 1))
    same = records[: len(before)] == before
    assert same, f"steps 1 to {len(before)} changed when the training resumed"
    shutil.rmtree(experiment.files.folder(cell))
    note(f"killed after step {len(before)}; resumed; each of {len(records)} steps is there once")
