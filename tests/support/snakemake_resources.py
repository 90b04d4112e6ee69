"""Prints the resources of the planned jobs of a rule with the profile `slurm`, and runs none.

python -m tests.support.snakemake_resources RULE TARGET... [--config KEY=VALUE...]

One JSON object a line, with the job's wildcards and what the executor plugin would get.
"""

import json
import sys
from typing import Any

from snakemake.cli import args_to_api, parse_args
from snakemake.dag import DAG


def print_resources(rule: str, dag: DAG) -> None:
    for job in dag.jobs:
        if job.rule.name == rule:
            values = {name: str(value) for name, value in job.resources.items()}
            numbers = {name: int(text) for name, text in values.items() if text.isdecimal()}
            print(json.dumps(dict(job.wildcards_dict) | values | numbers), flush=True)


def main(rule: str, words: list[str]) -> None:
    finish = DAG.postprocess

    async def postprocess(dag: DAG, *args: Any, **kwargs: Any) -> Any:
        result = await finish(dag, *args, **kwargs)
        print_resources(rule, dag)
        return result

    DAG.postprocess = postprocess
    parser, options = parse_args(["--dry-run", "--quiet", "all", "--profile", "slurm", *words])
    sys.exit(0 if args_to_api(options, parser) else 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
