"""A published model for tests: a small random Llama with a byte-pair tokenizer and a chat template.

Frequent words are tokens, so is each digit, and a turn ends with `<|im_end|>`.
"""

import json
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = "<|im_end|>"
SYSTEM = "You are a helpful assistant."
# The default system message is part of the template, as in many published models.
TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\n" + SYSTEM + "<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_TEXT = (
    "the answer is a number of apples in each box and the price of one ticket "
    "system user assistant You are a helpful assistant. What is the number? "
) * 20


@cache
def tokenizer() -> Tokenizer:
    """Byte-pair tokenizer of at most 400 tokens."""
    result = Tokenizer(models.BPE())
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    result.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    result.train_from_iterator([_TEXT], trainer)
    return result


def model() -> LlamaForCausalLM:
    """Random weights, large enough that tokens differ in probability."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer().get_vocab_size(),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        initializer_range=0.2,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config)


def write(folder: Path) -> None:
    """Write a Hugging Face folder."""
    folder.mkdir(parents=True, exist_ok=True)
    model().save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
