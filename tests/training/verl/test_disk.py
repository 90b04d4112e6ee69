"""The disk usage in docs/verl.md follows from the models' configs; test_trainer.py measures one."""

import pytest
from transformers import Qwen2Config, Qwen2ForCausalLM

from rspo.training.verl.disk import checkpoint_bytes, peak_bytes, policy_bytes
from tests.support import ROOT

# From config.json of each model.
CONFIGS = {
    "Qwen2.5-Math-1.5B": {
        **{"vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960},
        **{"num_attention_heads": 12, "num_key_value_heads": 2, "tie_word_embeddings": True},
    },
    "Qwen2.5-Math-7B": {
        **{"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944},
        **{"num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False},
    },
}


@pytest.mark.parametrize("model", CONFIGS)
def test_the_docs_state_the_disk_usage_of_a_cell(model: str) -> None:
    import torch

    with torch.device("meta"):
        network = Qwen2ForCausalLM(Qwen2Config(num_hidden_layers=28, **CONFIGS[model]))
    parameters = sum(parameter.numel() for parameter in network.parameters())
    sizes = [measure(parameters) / 1e9 for measure in (checkpoint_bytes, peak_bytes, policy_bytes)]
    line = f"| {model} | {parameters:,} | " + " | ".join(f"{size:.0f} GB" for size in sizes) + " |"
    assert line in (ROOT / "docs" / "verl.md").read_text()
