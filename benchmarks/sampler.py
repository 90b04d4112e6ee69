"""Tokens per second of this package's sampler on the CPU, compared with transformers' generate.

Both use the small model of config/tiny.yaml with random weights, so that no training is needed, and
responses end with the same probability in both. Tokens after the end token do not count.
"""

import tempfile
from pathlib import Path
from statistics import fmean

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from benchmarks import Row, median_cpu_seconds
from rspo.config.experiment import Experiment
from rspo.policies import qwen2
from rspo.policies.qwen2 import Qwen2
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.training.pretraining import shape_of

PROMPTS = 64
N = 16


def run() -> list[Row]:
    """The speed of both, and their ratio."""
    config = Experiment.load("tiny").config
    scratch = config.models["small"].scratch
    assert scratch is not None
    limit = config.sampling.max_response_tokens
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_tokenizer(folder, config.sampling.max_prompt_tokens, 64)
        tokenizer = ChatTokenizer(folder)
        model = Qwen2(shape_of(scratch, config.sampling, tokenizer.size))
        model.initialise(0.05, torch.Generator().manual_seed(0))
        ids = {"eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad}
        qwen2.save(model, folder, ids)
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts = torch.randint(2, tokenizer.size, (PROMPTS, config.sampling.max_prompt_tokens))
    # Sample from the whole distribution, as the sampler does; transformers truncates it by default.
    generation = GenerationConfig(
        do_sample=True, top_k=0, top_p=1.0, temperature=1.0, max_new_tokens=limit, **ids
    )
    generator = torch.Generator().manual_seed(0)
    tokens: dict[str, list[int]] = {"ours": [], "theirs": []}

    def ours() -> None:
        ends = {"end": tokenizer.end, "pad": tokenizer.pad}
        responses = sample(
            model, prompts.tolist(), N, max_tokens=limit, generator=generator, **ends
        )
        tokens["ours"].append(int(responses.lengths.sum()))

    def transformers() -> None:
        with torch.inference_mode():
            sequences = theirs.generate(
                prompts.repeat_interleave(N, 0), generation_config=generation
            )
        responses = sequences[:, prompts.shape[1] :]
        # Tokens before the end token count, and the end token of each response that has ended.
        before_end = (responses == tokenizer.end).cumsum(dim=1) == 0
        ended = int((~before_end).any(dim=1).sum())
        tokens["theirs"].append(int(before_end.sum()) + ended)

    seconds = median_cpu_seconds({"ours": ours, "theirs": transformers}, repeats=7)
    speed = {who: fmean(tokens[who]) / seconds[who] for who in seconds}
    ratio = speed["ours"] / speed["theirs"]
    what = f"sampler, {PROMPTS} prompts x {N} responses of up to {limit} tokens"
    measured = f"{speed['ours']:,.0f} tokens/s"
    return [
        Row(what, measured, ">= 40,000 tokens/s", speed["ours"] >= 40_000),
        Row("transformers generate, the same", f"{speed['theirs']:,.0f} tokens/s"),
        Row("sampler / transformers generate", f"{ratio:.2f}", ">= 1.5", ratio >= 1.5),
    ]
