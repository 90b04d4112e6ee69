"""The gradient of pretraining, against the plain loss of a whole batch."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.policies.qwen2 import KVCache, Qwen2
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.training import pretraining, supervised


def test_the_gradient_is_that_of_the_mean_loss_of_the_response_tokens(tmp_path: Path) -> None:
    config = Experiment.load("tiny").config
    scratch = config.models["small"].scratch
    assert scratch is not None
    save_tokenizer(tmp_path, 10, 28)
    tokenizer = ChatTokenizer(tmp_path)
    examples = pretraining.worked_examples(90, seed=0)
    encoded = pretraining._encode(tokenizer, examples)
    prompts, responses = encoded.prompts, encoded.responses
    model = Qwen2(pretraining.shape_of(scratch, config.sampling, tokenizer.size))
    model.initialise(0.05, torch.Generator().manual_seed(0))

    loss = supervised.backward(model, encoded)
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).clone()
    model.zero_grad()
    sequences = torch.cat((prompts, responses.clamp(min=0)), dim=1)
    logits = model.logits(model(sequences, KVCache()))[:, prompts.shape[1] - 1 : -1]
    expected = F.cross_entropy(
        logits.flatten(0, 1), responses.flatten(), ignore_index=supervised.IGNORED
    )
    expected.backward()
    expected_gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert abs(loss - expected.item()) < 1e-5
    assert (gradient - expected_gradient).norm() < 1e-5 * expected_gradient.norm()


def test_prompts_longer_than_the_limit_name_the_key(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, 3, 28)
    with pytest.raises(InputError, match=r"sampling\.max_prompt_tokens: expected at least \d+, "):
        pretraining._encode(ChatTokenizer(tmp_path), pretraining.worked_examples(90, seed=0))
