# The held-out problems are always an input, because validation may read them. They are `ancient`:
# validation changes the training log but not the policy, so newer problems do not trigger training.
#
# Checkpoints are not declared as outputs: Snakemake deletes the outputs of a failed job, and a retry
# resumes from the checkpoint.
rule train:
    input:
        base=lambda wildcards: f"{RESULTS}/cells/{experiment.cell(wildcards.cell).model}--base/policy",
        problems=f"{RESULTS}/problems/train.parquet",
        held_out=ancient(f"{RESULTS}/problems/validation.parquet"),
        judge=judge_files(experiment.config.verifier),
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
        settings=lambda wildcards: steps.train(experiment, wildcards.cell).settings_hash,
    shell:
        "rspo train {wildcards.cell} 2>&1 | tee -ip {log}"


# Training on several nodes: one process per node, started by srun. A job step must request its CPUs
# again (since SLURM 22.05). RSPO_TRY tells the processes of one start of the job from those of an
# earlier start; Snakemake's executor removes SLURM's own restart count from the environment.
rule train_on_nodes:
    input:
        base=rules.train.input.base,
        problems=rules.train.input.problems,
        held_out=rules.train.input.held_out,
        judge=judge_files(experiment.config.verifier),
    output:
        policy=directory(f"{RESULTS}/cells/{{cell}}/policy"),
        records=f"{RESULTS}/cells/{{cell}}/training.jsonl",
    log:
        f"{RESULTS}/logs/train/{{cell}}.log",
    wildcard_constraints:
        # All cells train on several nodes, or none.
        cell=r"[^/]+--s\d+" if experiment.nodes > 1 else "(?!)",
    priority: 1
    resources:
        judge_server=judge_servers(experiment.config.verifier),
        mpi="srun",
        nodes=experiment.nodes,
        tasks=experiment.nodes,
        cpus_per_task=1,
    params:
        settings=lambda wildcards: steps.train(experiment, wildcards.cell).settings_hash,
    shell:
        "export RSPO_TRY=$(date +%s%N); "
        "{resources.mpi} --nodes={resources.nodes} --ntasks={resources.nodes} --ntasks-per-node=1 "
        "--cpus-per-task={resources.cpus_per_task} --kill-on-bad-exit "
        "rspo train {wildcards.cell} 2>&1 | tee -ip {log}"


ruleorder: train_on_nodes > train
