"""Train a small language model with TRL and RSPO: the answers of a bandit, in a minute on a CPU.

Each prompt is the same question, and one of six words is right. The prompt does not tell which. For
one answer it is best to always give the word that is right most often. For k answers it is best to
spread them (examples/bandit.py has the same task without TRL):

    policy gradient            Pass@1 = 0.36, Pass@4 = 0.36
    RSPO for Pass@4            Pass@1 = 0.26, Pass@4 = 0.62

    pip install '<this checkout>[trl]'
    python examples/trl_bandit.py
"""

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig

from rspo.adapters.trl import RSPOTrainer

SHARES = {"red": 0.36, "green": 0.24, "blue": 0.16, "black": 0.11, "white": 0.08, "pink": 0.05}
PROMPTS = 16
N = 16  # responses to each prompt
STEPS = 150


def tokenizer_of_words() -> PreTrainedTokenizerFast:
    """A tokenizer for which every word is a token."""
    words = ["<pad>", "<end>", "color?"]
    words += SHARES
    model = models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def small_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def questions(count: int, seed: int = 0) -> Dataset:
    """The same question `count` times, with right answers drawn by their shares."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.tensor(list(SHARES.values()))
    right = torch.multinomial(shares, count, replacement=True, generator=generator)
    words = list(SHARES)
    return Dataset.from_list([{"prompt": "color?", "answer": words[i]} for i in right.tolist()])


def correct(completions: list[str], answer: list[str], **_: object) -> list[float]:
    """The reward of each completion: 1 if its first word is the right one."""
    rewards = []
    for text, word in zip(completions, answer, strict=True):
        rewards.append(float(text.split()[:1] == [word]))
    return rewards


def train(objective: str, k: int | None = None) -> Qwen2ForCausalLM:
    tokenizer = tokenizer_of_words()
    with tempfile.TemporaryDirectory() as folder:
        trainer = RSPOTrainer(
            model=small_model(tokenizer),
            reward_funcs=correct,
            processing_class=tokenizer,
            train_dataset=questions(PROMPTS * STEPS),
            objective=objective,
            k=k,
            args=GRPOConfig(
                output_dir=folder,
                loss_type="dr_grpo",
                scale_rewards="none",
                num_generations=N,
                per_device_train_batch_size=PROMPTS * N,
                gradient_accumulation_steps=1,
                max_completion_length=2,
                max_steps=STEPS,
                learning_rate=5e-3,
                lr_scheduler_type="linear",
                bf16=False,
                use_cpu=True,
                gradient_checkpointing=False,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return trainer.model


def pass_at_k(model: Qwen2ForCausalLM, k: int) -> float:
    """The exact probability that one of k answers is right."""
    tokenizer = tokenizer_of_words()
    with torch.no_grad():
        logits = model(**tokenizer("color?", return_tensors="pt")).logits[0, -1]
    policy = logits.softmax(-1)[tokenizer.convert_tokens_to_ids(list(SHARES))]
    return float(torch.tensor(list(SHARES.values())) @ (1 - (1 - policy) ** k))


if __name__ == "__main__":
    torch.set_num_threads(1)  # with more, small tensors are slower
    for name, objective, k in (
        ("policy gradient", "policy_gradient", None),
        ("RSPO for Pass@4", "rspo_pass_at_k", 4),
    ):
        model = train(objective, k)
        values = ", ".join(f"Pass@{k} = {pass_at_k(model, k):.2f}" for k in (1, 4))
        print(f"{name:26} {values}")
