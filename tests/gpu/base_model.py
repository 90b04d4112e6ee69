"""The published model of most trainings, or one with random weights where it cannot be had."""

from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.policies.qwen2 import ModelConfig
from tests.gpu.settings import ROOT, SCALE, Settings
from tests.support import hub_model

# Heads of the size that the paper's models have.
_SHAPE = ModelConfig(
    vocab_size=len(hub_model.SYMBOLS),
    hidden_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=1024,
    max_position_embeddings=hub_model.CONTEXT,
    tie_word_embeddings=False,
)
_DEVIATION = 0.02
_MIXING = 0.005  # attention and feed-forward change the probabilities of tokens by some percent
_CHAT = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def make_policy(settings: Settings) -> str:
    """Make the base policy of the trainings; returns what it is.

    Raises: AssertionError if this fails with a random model, too.
    """
    hub = Experiment.load(SCALE, root=ROOT).config.models[settings.model].hub
    assert hub is not None
    mirror = [f"--mirror={settings.mirror}"] if settings.mirror else []
    if settings.start("pretrain", settings.model, *mirror).wait() == 0:
        return hub.id
    reason = settings.last_message()
    folder = settings.folder / "mirror" / hub.id
    write_random_model(folder)
    settings.rspo("pretrain", settings.model, f"--mirror={settings.folder / 'mirror'}")
    return f"random Qwen2, because {reason}"


def write_random_model(folder: Path) -> None:
    """Write a Qwen2 that answers with a random digit, correct in a tenth of the responses."""
    answers = dict(hub_model.ANSWER)
    for digit in "0123456789":
        answers[digit] = ["}"]
    hub_model.write(folder, answers, _SHAPE, _DEVIATION, _MIXING)
    (folder / "chat_template.jinja").write_text(_CHAT)
