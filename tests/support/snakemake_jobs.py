"""Prints the jobs that Snakemake plans in this folder, one JSON object a line, and runs none.

python -m tests.support.snakemake_jobs SCALE TARGET...
"""

import json
import sys
from pathlib import Path

from snakemake.api import (
    ConfigSettings,
    DAGSettings,
    OutputSettings,
    ResourceSettings,
    SnakemakeApi,
)
from snakemake.settings.enums import Quietness

from rspo.snakemake.patches import task_of

if __name__ == "__main__":
    scale, *targets = sys.argv[1:]
    with SnakemakeApi(OutputSettings(dryrun=True, quiet={Quietness.ALL})) as api:
        workflow = api.workflow(
            ResourceSettings(cores=1),
            ConfigSettings(config={"scale": scale}),
            snakefile=Path("Snakefile"),
        )
        workflow.dag(DAGSettings(targets=targets)).execute_workflow("dryrun")
        for job in workflow._workflow.dag.jobs:
            about = {"rule": job.rule.name, "wildcards": job.wildcards_dict}
            about |= {"input": list(map(str, job.input)), "output": list(map(str, job.output))}
            task = task_of(job)
            about["settings"] = job.params.get("settings")
            about["task"] = [str(path) for path in task.outputs] if task else []
            print(json.dumps(about))
