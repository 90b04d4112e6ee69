"""Writes the same responses as files in the layouts of other tools, with content of our own."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

Line = dict[str, Any]

# Problem, answer and three responses; `None` is a response that failed.
PROBLEMS: list[tuple[str, str, list[str | None]]] = [
    ("What is 3 + 4?", "7", [r"It is \boxed{7}.", r"So \boxed{8}.", None]),
    ("Halve 5.", r"\frac{5}{2}", [r"\boxed{2.5}", "2.5, I think.", r"\boxed{5/2}"]),
]
# What the verifier `rules` decides on each response, in the same order.
CORRECT = [[True, False, False], [True, False, True]]
PROMPT = "Solve it. "  # what a tool puts before the problem
ZSTANDARD = 93


def chat(text: str | None, role: str = "user") -> list[Line]:
    return [{"role": "system", "content": "Reason."}, {"role": role, "content": text}]


def write_lines(path: Path, rows: list[Line]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def plain_rows() -> list[Line]:
    return [
        {"problem": problem, "answer": answer, "response": text}
        for problem, answer, texts in PROBLEMS
        for text in texts
    ]


def plain(folder: Path) -> list[Path]:
    return [write_lines(folder / "plain.jsonl", plain_rows())]


def array(folder: Path) -> list[Path]:
    path = folder / "array.json"
    path.write_text(json.dumps(plain_rows(), indent=2))
    return [path]


def table_by_row(folder: Path) -> list[Path]:
    path = folder / "by_row.json"
    path.write_text(json.dumps({str(i): row for i, row in enumerate(plain_rows())}))
    return [path]


def table_by_column(folder: Path) -> list[Path]:
    path = folder / "by_column.json"
    pd.DataFrame(plain_rows()).to_json(path)
    return [path]


def grouped(folder: Path) -> list[Path]:
    rows = [{"problem": p, "answer": a, "response": texts} for p, a, texts in PROBLEMS]
    return [write_lines(folder / "grouped.jsonl", rows)]


def lm_eval(folder: Path) -> list[Path]:
    rows = []
    for name in ("strict", "flexible"):
        for place, (problem, answer, texts) in enumerate(PROBLEMS):
            prompt = {"gen_args_0": {"arg_0": PROMPT + problem, "arg_1": {"until": []}}}
            row = {"doc_id": place, "doc": {"problem": problem}, "target": answer}
            row |= {"arguments": prompt, "resps": [texts], "filtered_resps": [texts[0]]}
            rows.append(row | {"filter": name, "exact_match": 1})
    return [write_lines(folder / "samples_halves_2026-01-01T00-00-00.jsonl", rows)]


def lighteval(folder: Path) -> list[Path]:
    rows = []
    for place, (problem, answer, texts) in enumerate(PROBLEMS):
        doc = {"query": problem, "choices": ["no", answer], "gold_index": [1], "id": str(place)}
        answered = ["" if text is None else text for text in texts]
        rows.append({"doc": doc, "model_response": {"text": answered}, "metric": {"pass@1": 0.5}})
    path = folder / "details_halves.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return [path]


def old_lighteval(folder: Path) -> list[Path]:
    rows = []
    for problem, answer, texts in PROBLEMS:
        answered = [["" if text is None else text] for text in texts]
        row = {"example": problem, "full_prompt": PROMPT + problem, "gold": str([answer])}
        rows.append(row | {"predictions": answered, "choices": [], "metrics": {"em": 0.5}})
    path = folder / "details_old.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return [path]


def inspect_samples() -> list[Line]:
    samples = []
    for epoch in range(3):
        for place, (problem, answer, texts) in enumerate(PROBLEMS):
            text = texts[epoch]
            message = {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"}]}
            message["content"].append({"type": "text", "text": text})  # type: ignore[attr-defined]
            choices = [] if text is None else [{"message": message, "stop_reason": "stop"}]
            sample: Line = {"id": place + 1, "epoch": epoch + 1, "input": problem}
            if place == 0:
                sample["input"] = "attachment://a"
                sample["attachments"] = {"a": problem}
            sample |= {"target": answer, "output": {"model": "m", "choices": choices}}
            value = "C" if CORRECT[place][epoch] else "I"
            samples.append(sample | {"scores": {"match": {"value": value}}})
    return samples


def inspect_json(folder: Path) -> list[Path]:
    path = folder / "log.json"
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": inspect_samples()}
    path.write_text(json.dumps(log, indent=1))
    return [path]


def inspect_zip(folder: Path) -> list[Path]:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for sample in inspect_samples():
            archive.writestr(_name_of(sample), json.dumps(sample))
    return [path]


def inspect_zip_zstandard(folder: Path) -> list[Path]:
    """As newer versions of inspect_ai write it, which Python's zipfile cannot."""
    path = folder / "zstandard.eval"
    with zipfile.ZipFile(path, "w") as archive:
        for sample in inspect_samples():
            packed = pa.compress(json.dumps(sample).encode(), codec="zstd", asbytes=True)
            archive.writestr(_name_of(sample), packed)
    data = bytearray(path.read_bytes())
    # The number of the compression is after the signature of each header: of a member and of its
    # entry in the list at the end.
    for signature, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        place = data.find(signature)
        while place >= 0:
            data[place + offset : place + offset + 2] = struct.pack("<H", ZSTANDARD)
            place = data.find(signature, place + 1)
    path.write_bytes(data)
    return [path]


def _name_of(sample: Line) -> str:
    return f"samples/{sample['id']}_epoch_{sample['epoch']}.json"


def qwen_math(folder: Path) -> list[Path]:
    rows = []
    for place, (problem, answer, texts) in enumerate(PROBLEMS):
        row = {"idx": place, "question": problem, "gt_cot": "...", "gt": answer, "answer": "see gt"}
        row |= {"code": texts, "pred": ["?"] * 3, "report": [None] * 3, "score": CORRECT[place]}
        rows.append(row)
    return [write_lines(folder / "test_qwen.jsonl", rows)]


def verl(folder: Path) -> list[Path]:
    rows = []
    for place, (problem, answer, texts) in enumerate(PROBLEMS):
        for text, correct in zip(texts, CORRECT[place], strict=True):
            row = {"input": problem, "output": text, "gts": answer, "score": 2.0 * correct - 1}
            rows.append(row | {"step": 5, "acc": float(correct)})
    return [write_lines(folder / "5.jsonl", rows)]


def verl_generation(folder: Path) -> list[Path]:
    rows = []
    for place, (problem, answer, texts) in enumerate(PROBLEMS):
        gold = {"ground_truth": answer, "style": "rule"}
        row = {"data_source": "own", "prompt": chat(problem), "reward_model": gold}
        rows.append(row | {"extra_info": {"index": place}, "responses": texts})
    path = folder / "generated.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return [path]


def nemo_skills(folder: Path) -> list[Path]:
    paths = []
    for seed in range(3):
        rows = []
        for place, (problem, answer, texts) in enumerate(PROBLEMS):
            row = {"problem": problem, "expected_answer": answer, "generation": texts[seed]}
            rows.append(row | {"symbolic_correct": CORRECT[place][seed]})
        paths.append(write_lines(folder / f"output-rs{seed}.jsonl", rows))
    return paths


def human_eval(folder: Path) -> list[Path]:
    rows = []
    for place, verdicts in enumerate(CORRECT):
        for passed in verdicts:
            row = {"task_id": f"HumanEval/{place}", "completion": "    pass\n"}
            result = "passed" if passed else "failed: "
            rows.append(row | {"result": result, "passed": passed})
    return [write_lines(folder / "samples.jsonl_results.jsonl", rows)]


def evalplus(folder: Path) -> list[Path]:
    results: dict[str, list[Line]] = {}
    for place, verdicts in enumerate(CORRECT):
        results[f"HumanEval/{place}"] = [
            {"solution": "pass", "base_status": "pass", "plus_status": "pass" if right else "fail"}
            for right in verdicts
        ]
    path = folder / "samples_eval_results.json"
    path.write_text(json.dumps({"date": "2026-01-01", "hash": "h", "eval": results}))
    return [path]


def old_evalplus(folder: Path) -> list[Path]:
    results = {}
    for place, verdicts in enumerate(CORRECT):
        base = [["pass" if right else "fail", []] for right in verdicts]
        results[f"HumanEval/{place}"] = {"nfiles": 3, "base": base, "plus": []}
    path = folder / "old_eval_results.json"
    path.write_text(json.dumps({"date": "2023-01-01", "hash": "h", "eval": results}))
    return [path]


# Files with responses and answers, by the format that is printed; empty for rows of one's own.
WITH_ANSWERS: list[tuple[Callable[[Path], list[Path]], str]] = [
    (plain, ""),
    (array, ""),
    (table_by_row, ""),
    (table_by_column, ""),
    (grouped, ""),
    (lm_eval, "lm-eval"),
    (lighteval, "lighteval"),
    (old_lighteval, "lighteval"),
    (inspect_json, "inspect_ai"),
    (inspect_zip, "inspect_ai"),
    (inspect_zip_zstandard, "inspect_ai"),
    (qwen_math, "qwen-math"),
    (verl, "verl"),
    (verl_generation, "verl-generation"),
    (nemo_skills, "nemo-skills"),
]
# Files with a verdict on each response.
WITH_VERDICTS: list[tuple[Callable[[Path], list[Path]], str]] = [
    (inspect_json, "inspect_ai"),
    (inspect_zip, "inspect_ai"),
    (qwen_math, "qwen-math"),
    (verl, "verl"),
    (nemo_skills, "nemo-skills"),
    (human_eval, "human-eval"),
    (evalplus, "evalplus"),
    (old_evalplus, "evalplus"),
]
