"""A cell's prompts in verl: the same token ids in the same order as the local engine.

verl imports this module in its driver and in its agent-loop workers, by `data.custom_cls` of
common.yaml.
Depends on verl/trainer/ppo/utils.py (`create_rl_dataset`) and
verl/experimental/agent_loop/agent_loop.py (`AgentLoopBase`, `register`).
"""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from torch.utils.data import Dataset
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
    register,
)
from verl.workers.rollout.llm_server import LLMServerClient

from rspo.config.experiment import base_name
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.prompts import prompts_of_step, read_prompts
from rspo.training.verl.section import experiment_of


class PromptsInOrder(Dataset[dict[str, Any]]):
    """Item i is the i-th prompt of the training, through all steps and epochs."""

    def __init__(self, data_files: str, config: DictConfig, **_: Any) -> None:
        """`data_files` is empty for verl's validation set, which is not used."""
        if not data_files:
            self.rows = [0]  # verl's loader rejects an empty data set
            return
        experiment = experiment_of(config.rspo)
        cell = experiment.cell(config.rspo.cell)
        training = experiment.config.training
        tokenizer = ChatTokenizer(experiment.files.policy(base_name(cell.model)))
        sampling = experiment.config.sampling
        self.prompts, _too_long = read_prompts(Path(data_files), tokenizer, sampling)
        self.rows = []
        for step in range(training.steps):
            self.rows += prompts_of_step(self.prompts.families, training, cell.seed, step)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The fields that verl passes to the agent loop and to the trainer."""
        tokens = self.prompts.tokens[self.rows[index]]
        return {"raw_prompt": tokens, "index": index, "name": str(index)}


@register("rspo_prompt")
class PromptLoop(AgentLoopBase):
    """Requests one response to a prompt, whose token ids include the chat template; no tools."""

    def __init__(self, server_manager: LLMServerClient, **_: Any) -> None:
        """Skip verl's own constructor, which tests the tokenizer on conversations."""
        self.server_manager = server_manager

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Request a response; `kwargs` has the fields of the data set and those that verl adds."""
        prompt = [int(token) for token in kwargs["raw_prompt"]]
        # The name is the same in every run: the server on CPUs seeds its random numbers with it.
        name = f"{kwargs['global_steps']}-{kwargs['name']}-{kwargs['session_id']}"
        output = await self.server_manager.generate(
            request_id=name, prompt_ids=prompt, sampling_params=sampling_params
        )
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=output.token_ids,
            response_mask=[1] * len(output.token_ids),  # every token comes from the policy
            response_logprobs=output.log_probs,
            num_turns=2,  # the prompt and the response
            metrics=AgentLoopMetrics(),
            extra_fields=output.extra_fields,
        )
