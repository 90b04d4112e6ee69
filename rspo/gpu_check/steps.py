"""The steps of `rspo gpu-check`, in order."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """
    check: MODULE:FUNCTION, called in a process of its own with the `Settings`.
    seconds: after which its processes are ended.
    needs: names of steps that must not have failed.
    """

    name: str
    check: str
    seconds: float
    needs: tuple[str, ...] = ()


_HERE = "rspo.gpu_check"
_SOFTWARE, _FLASH, _REDUCE = "driver and packages", "flash-attn", "all-reduce"
_MODEL, _TRAINING, _EVALUATION = "model and problems", "verl, three steps", "evaluation"
_TO_TRAIN = (_FLASH, _REDUCE, _MODEL)

STEPS = (
    Step(_SOFTWARE, f"{_HERE}.software:check", 300),
    Step(_FLASH, f"{_HERE}.attention:check", 120, (_SOFTWARE,)),
    Step(_REDUCE, f"{_HERE}.collectives:check", 180, (_SOFTWARE,)),
    Step(_MODEL, f"{_HERE}.model:check", 600, (_SOFTWARE,)),
    Step("vLLM sampling", f"{_HERE}.sampling:check", 400, (_MODEL,)),
    Step("vLLM sampling, Qwen2", f"{_HERE}.sampling:check_qwen2", 400, (_MODEL,)),
    Step(_TRAINING, f"{_HERE}.training:check_steps", 600, _TO_TRAIN),
    Step("judge beside verl", f"{_HERE}.judge:check", 600, _TO_TRAIN),
    Step("weights sent to the sampler", f"{_HERE}.weights:check", 600, _TO_TRAIN),
    Step("SIGKILL and resume", f"{_HERE}.training:check_resuming", 600, _TO_TRAIN),
    Step(_EVALUATION, f"{_HERE}.evaluation:check", 600, (_TRAINING,)),
    Step("figure", f"{_HERE}.evaluation:check_figure", 120, (_EVALUATION,)),
)
