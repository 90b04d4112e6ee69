"""TRL: the advantages in a batch of `GRPOTrainer`, with a tiny model and known rewards."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    given: list[float] = []

    def reward(completions: list[str], **_: object) -> list[float]:
        """The rewards of the call, in the order of the responses, whatever the model wrote."""
        return given[: len(completions)]

    trainers: dict[int, Any] = {}

    def computed(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        if n not in trainers:
            trainers[n] = trainer_of(n, reward, settings)
        trainer = trainers[n]
        given[:] = rewards.ravel().tolist()
        rows = []
        for prompt in range(rewards.size // n):
            rows += [trainer.train_dataset[prompt]] * n
        trainer.model.train()
        batch = trainer._generate_and_score_completions(rows)
        return batch["advantages"].to(torch.float32).cpu().numpy().reshape(rewards.shape)

    return computed


def trainer_of(n: int, reward: Any, settings: dict[str, Any]) -> Any:
    """A trainer for groups of n, on the CPU."""
    words = {"<pad>": 0, "<end>": 1, "color?": 2, "red": 3, "blue": 4}
    of_words = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    of_words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=of_words, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(words),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    arguments = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        num_generations=n,
        per_device_train_batch_size=n,
        max_completion_length=2,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        report_to="none",
        **settings,
    )
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=reward,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([{"prompt": "color?"}] * 64),
        args=arguments,
    )
    trainer.current_gradient_accumulation_steps = 1  # the training loop sets it
    return trainer
