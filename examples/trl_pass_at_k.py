"""Pass@4 with its standard error in TRL's logs, while a small model learns sums; a minute on a CPU.

The model has an end token and 36 words, one of which is a prompt or an answer. It learns with RSPO
for Pass@4, and every 10 steps TRL evaluates 16 answers to each of the 25 prompts:

    step 0: Pass@4 = 0.13, error 0.04, within 0.03
    step 10: Pass@4 = 0.29, error 0.05, within 0.04
    step 20: Pass@4 = 0.67, error 0.06, within 0.03
    step 30: Pass@4 = 0.80, error 0.04, within 0.03

    pip install '<this checkout>[math,trl]'
    python examples/trl_pass_at_k.py
"""

import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    PrinterCallback,
    Qwen2Config,
    Qwen2ForCausalLM,
    set_seed,
)
from trl import GRPOConfig

from rspo.adapters.trl import RSPOTrainer
from rspo.adapters.trl_pass_at_k import PassAtKCallback
from rspo.adapters.trl_reward import accuracy_reward

LARGEST = 4  # summand
STEPS = 30


def problems_of_sums() -> Dataset:
    rows = []
    for first in range(LARGEST + 1):
        for second in range(LARGEST + 1):
            answer = rf"\boxed{{{first + second}}}"
            rows.append({"prompt": f"{first}+{second}=", "solution": answer})
    return Dataset.from_list(rows)


def tokenizer_of_words(prompts: list[str]) -> PreTrainedTokenizerFast:
    """A tokenizer for which every prompt and every answer is a token."""
    words = ["<pad>", "<end>"]
    words += prompts
    words += [rf"\boxed{{{answer}}}" for answer in range(2 * LARGEST + 1)]
    model = models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def small_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    set_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return Qwen2ForCausalLM(config)


def train(folder: str) -> list[dict[str, float]]:
    """Train the model; returns the rows of TRL's logs."""
    problems = problems_of_sums()
    tokenizer = tokenizer_of_words(problems["prompt"])
    trainer = RSPOTrainer(
        model=small_model(tokenizer),
        processing_class=tokenizer,
        reward_funcs=accuracy_reward,
        train_dataset=problems,
        eval_dataset=problems,
        objective="rspo_pass_at_k",
        k=4,
        args=GRPOConfig(
            output_dir=folder,
            loss_type="dr_grpo",
            scale_rewards="none",
            num_generations=16,
            per_device_train_batch_size=400,
            per_device_eval_batch_size=400,
            gradient_accumulation_steps=1,
            max_completion_length=1,
            max_steps=STEPS,
            learning_rate=5e-3,
            eval_strategy="steps",
            eval_steps=10,
            eval_on_start=True,
            save_strategy="no",
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            report_to="none",
            disable_tqdm=True,
        ),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(PassAtKCallback(trainer, ks=[1, 4], correct="accuracy_reward"))
    trainer.train()
    rows: list[dict[str, float]] = trainer.state.log_history
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for row in train(folder):
            if "eval_pass@4" in row:
                value = row["eval_pass@4"]
                error = row["eval_pass@4_error"]
                within = row["eval_pass@4_within"]
                step = f"step {row['step']}"
                print(f"{step}: Pass@4 = {value:.2f}, error {error:.2f}, within {within:.2f}")
