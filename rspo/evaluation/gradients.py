"""`rspo gradients`: signal and variance of every objective's gradient, measured on a policy.

For a prompt x, draw N responses and take their gradients s_i = grad log pi(y_i|x). Split them at
random into B = N/n groups of n; group b gives the gradient that a trainer would use for the prompt,
g_b = sum_i w_i s_i. Groups are independent, which gives unbiased estimates for one prompt:

    |E[g]|^2    the mean of g_b . g_b' over pairs of different groups
    E[|g|^2]    the mean of |g_b|^2
    tr Cov[g]   the difference of the two

Averaging over several random splits leaves the expectations unchanged. All three need only the
products s_i . s_j. The pairs must be of different groups: |mean of g_b|^2 contains the noise of
g_b itself.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.schema import Gradients
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of, seed_of
from rspo.core.tables import GRADIENTS, PROBLEMS, read_table, write_table
from rspo.objectives import response_weights
from rspo.policies import qwen2
from rspo.policies.qwen2 import Qwen2, response_logits
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify, verifier_of

Floats = NDArray[np.float64]
# Responses per call of vmap; a chunk that exceeds the cache of a core is slower.
CHUNK = 64


def write_gradients(
    experiment: Experiment, policy: str, study: str = "", force: bool = False
) -> None:
    """Write cells/<policy>/gradients.parquet: a row for each training prompt, objective and k.

    Args:
        study: measure the objectives of this study, for gradients_<study>.parquet.

    Raises: InputError for missing or bad inputs, a model from the hub, or a config without the
        section gradients.
    """
    model = experiment.model_of(policy)  # raises for an unknown policy
    settings = experiment.config.gradients
    if settings is None:
        raise InputError(f"config/{experiment.scale}.yaml has no section gradients")
    if experiment.config.models[model].scratch is None:
        raise InputError(
            f"config/{experiment.scale}.yaml: models.{model}: gradients are measured on one CPU, "
            "for the tiny models; allowed: scratch"
        )
    step, data = steps.gradients(experiment, policy, study), experiment.problems("train")
    verdicts = experiment.verdicts(policy, "gradients")

    def work() -> None:
        problems = read_table(data, PROBLEMS)[: settings.prompts]
        if len(problems) < settings.prompts:
            raise InputError(
                f"gradients.prompts = {settings.prompts}: {data} has only {len(problems)} problems"
            )
        with verifier_of(experiment, experiment.config.verifier, verdicts) as verify:
            meter = _Meter(experiment, policy, settings, verify)
            pairs = experiment.measured(study)
            rows = [row for problem in problems for row in meter.rows(problem, pairs)]
        write_table(step.outputs[0], GRADIENTS, rows)

    step.run(work, force)


class _Meter:
    def __init__(
        self, experiment: Experiment, policy: str, settings: Gradients, verify: Verify
    ) -> None:
        folder = experiment.policy(policy)
        self.tokenizer, self.model = ChatTokenizer(folder), qwen2.load(folder)
        self.sampling, self.settings, self.verify = experiment.config.sampling, settings, verify

    def rows(
        self, problem: dict[str, Any], pairs: list[tuple[str, int]]
    ) -> Iterator[dict[str, Any]]:
        """Rows of the gradients table of a training prompt, of each objective and k in `pairs`."""
        rewards, gradients, row_of = self._responses(problem)
        products = (gradients @ gradients.T).double()[row_of][:, row_of]
        draw = np.random.default_rng(seed_of(self.settings.seed, "groups", problem["id"]))
        orders = [draw.permutation(len(rewards)) for _ in range(self.settings.groupings)]
        splits = np.array(orders).reshape(len(orders), -1, self.settings.n)
        for objective, k in pairs:
            variance, signal = moments(products, rewards, splits, objective, k)
            yield {
                "problem_id": problem["id"],
                "objective": objective,
                "k": k,
                "n": self.settings.n,
                "responses": len(rewards),
                "correct": float(rewards.mean()),
                "variance": variance,
                "signal": signal,
            }

    def _responses(self, problem: dict[str, Any]) -> tuple[Floats, Tensor, Tensor]:
        """Sample N responses to a prompt.

        Returns: rewards (N,), gradients of the U distinct responses (U, parameters), and the row
            of each response's gradient (N,).
        """
        tokenizer, temperature = self.tokenizer, self.sampling.temperature
        (prompt,) = tokenizer.prompts([problem["prompt"]])
        drawn = sample(
            self.model,
            [prompt],
            self.settings.responses,
            max_tokens=self.sampling.max_response_tokens,
            end=tokenizer.end,
            pad=tokenizer.pad,
            generator=generator_of(self.settings.seed, "gradients", problem["id"]),
            temperature=temperature,
        )
        # A small policy repeats itself, and equal responses have equal gradients.
        tokens, first, row_of = np.unique(
            drawn.tokens.numpy(), axis=0, return_index=True, return_inverse=True
        )
        lengths = (drawn.lengths - drawn.finished.int())[first]  # without end tokens
        texts = tokenizer.decode(
            [ids[:length] for ids, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        )
        questions = [problem["prompt"][-1]["content"]] * len(texts)
        verdicts = self.verify(texts, [problem["answers"]] * len(texts), questions=questions)
        correct = np.array([float(verdict.correct) for verdict in verdicts])
        gradients = response_gradients(
            self.model,
            torch.tensor(prompt),
            torch.from_numpy(tokens),
            drawn.mask[first],
            temperature,
        )
        return correct[row_of], gradients, torch.from_numpy(row_of)


def moments(
    products: Tensor, rewards: Floats, splits: NDArray[np.int64], objective: str, k: int
) -> tuple[float, float]:
    """Unbiased estimates of tr Cov[g] and |E[g]|^2 for one prompt.

    Args:
        products: (N, N), s_i . s_j, float64.
        rewards: (N,).
        splits: (splits, B, n), indices of the responses in each of the B >= 2 groups of a split;
            each response once.
    """
    count, groups, _ = splits.shape
    rows = np.zeros((count, groups, len(rewards)))
    np.put_along_axis(rows, splits, response_weights(rewards[splits], objective, k), axis=-1)
    by_group = torch.from_numpy(rows)
    square = float((by_group @ products * by_group).sum()) / (count * groups)  # mean |g_b|^2
    by_split = by_group.sum(dim=1)
    total = float((by_split @ products * by_split).sum()) / count  # mean |sum_b g_b|^2
    signal = (total - groups * square) / (groups * (groups - 1))
    return square - signal, signal


class _LogProbability(nn.Module):
    """log pi(y|x) of one response, summed over its tokens, as a function of the parameters."""

    def __init__(self, model: Qwen2, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, prompt: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        """prompt (L,), tokens (T,) padded at the end, mask (T,) -> a scalar."""
        prompt_of = torch.zeros(1, dtype=torch.long)
        logits = response_logits(self.model, prompt[None], prompt_of, tokens[None])[0]
        log_probs = torch.log_softmax(logits / self.temperature, dim=-1)
        chosen = log_probs.gather(-1, tokens[:, None])[:, 0]
        return torch.where(mask, chosen, 0.0).sum()


def response_gradients(
    model: Qwen2, prompt: Tensor, tokens: Tensor, mask: Tensor, temperature: float = 1.0
) -> Tensor:
    """The gradient of each response's log-probability with respect to all parameters.

    For models that one CPU can train: a gradient has as many elements as the model parameters.

    Args:
        prompt: (L,) ids.
        tokens: (B, T) ids of the responses, padded at the end.
        mask: (B, T) bool, true at tokens and false at padding.
        temperature: of sampling; the policy is the distribution at this temperature.

    Returns: (B, parameters), in the order of `model.named_parameters()`.
    """
    function = _LogProbability(model, temperature)
    parameters = {name: value.detach() for name, value in function.named_parameters()}

    def log_probability(parameters: dict[str, Tensor], tokens: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = functional_call(function, parameters, (prompt, tokens, mask))
        return result

    gradient_of_each = vmap(grad(log_probability), in_dims=(None, 0, 0))
    chunks = []
    for chunk, chunk_mask in zip(tokens.split(CHUNK), mask.split(CHUNK), strict=True):
        longest = int(chunk_mask.sum(dim=1).max())
        # Fused attention has no batched gradient: PyTorch would process one response at a time.
        with sdpa_kernel(SDPBackend.MATH):
            gradients = gradient_of_each(parameters, chunk[:, :longest], chunk_mask[:, :longest])
        chunks.append(torch.cat([value.flatten(1) for value in gradients.values()], dim=1))
    return torch.cat(chunks)
