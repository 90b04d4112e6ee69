# A cell is validated on held-out problems or not, which changes its log and never its policy: they
# are always an input, and no reason to train again.
#
# Checkpoints lie beside the outputs and are not declared: Snakemake deletes what a failed job
# declared, and a checkpoint is what the next try goes on from.
rule train:
    input:
        base=lambda wildcards: f"{RESULTS}/cells/{experiment.cell(wildcards.cell).model}--base/policy",
        problems=f"{RESULTS}/problems/train.parquet",
        held_out=ancient(f"{RESULTS}/problems/validation.parquet"),
        judge=judge_files(experiment.config.verifier, experiment.config.engine == "local"),
    output:
        policy=directory(f"{RESULTS}/cells/{{cell}}/policy"),
        records=f"{RESULTS}/cells/{{cell}}/training.jsonl",
    log:
        f"{RESULTS}/logs/train/{{cell}}.log",
    priority: 1
    resources:
        judge_server=judge_servers(experiment.config.verifier),
        verl_cell=int(experiment.config.engine == "verl"),
    params:
        settings=settings("train", "cell"),
    shell:
        "rspo train {wildcards.cell} --anew {OPTIONS} 2>&1 | tee -i {log}"


# The same on several nodes: one process on each, of which the first one trains. A step of a job
# asks for its CPUs anew (from SLURM 22.05), and does not know which start of the job it is part of:
# the executor takes SLURM's own count away.
rule train_on_nodes:
    input:
        base=rules.train.input.base,
        problems=rules.train.input.problems,
        held_out=rules.train.input.held_out,
        judge=judge_files(experiment.config.verifier, experiment.config.engine == "local"),
    output:
        policy=directory(f"{RESULTS}/cells/{{cell}}/policy"),
        records=f"{RESULTS}/cells/{{cell}}/training.jsonl",
    log:
        f"{RESULTS}/logs/train/{{cell}}.log",
    wildcard_constraints:
        cell=cells_on_several_nodes(),
    priority: 1
    resources:
        judge_server=judge_servers(experiment.config.verifier),
        mpi="srun",
        nodes=experiment.nodes,
        tasks=experiment.nodes,
        cpus_per_task=1,
    params:
        settings=settings("train", "cell"),
    shell:
        "export RSPO_TRY=$(date +%s%N); "
        "{resources.mpi} --nodes={resources.nodes} --ntasks={resources.nodes} --ntasks-per-node=1 "
        "--cpus-per-task={resources.cpus_per_task} --kill-on-bad-exit "
        "rspo train {wildcards.cell} --anew {OPTIONS} 2>&1 | tee -i {log}"


ruleorder: train_on_nodes > train
