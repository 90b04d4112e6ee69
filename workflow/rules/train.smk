# The held-out problems are always an input, because validation may read them. They are `ancient`:
# validation changes the training log but not the policy, so newer problems are no reason to train
# again.
#
# Checkpoints are not outputs, because Snakemake deletes the outputs of a failed job, and a retry must
# find the checkpoint to resume from it.
#
# `priority`: among the jobs that are ready, trainings start first, because they take longest.
rule train:
    input:
        base=lambda wildcards: base_policy_of(wildcards.cell),
        problems=f"{RESULTS}/problems/train.parquet",
        held_out=ancient(f"{RESULTS}/problems/validation.parquet"),
        judge=JUDGE_FILES,
    output:
        policy=directory(f"{RESULTS}/cells/{{cell}}/policy"),
        records=f"{RESULTS}/cells/{{cell}}/training.jsonl",
    log:
        f"{RESULTS}/logs/train/{{cell}}.log",
    priority: 1
    resources:
        judge_server=STARTS_JUDGE,
        # A cell of verl uses all GPUs or a dozen processes. The profile limits the cells at a time.
        verl_cell=int(experiment.config.engine == "verl"),
    params:
        settings=lambda wildcards: tasks.train(experiment, wildcards.cell).settings_hash,
    shell:
        rspo_command("train {wildcards.cell}")


# The policies that are made from trained ones: copies, which are sampled at another temperature, and
# averages with the base policy. Without such cells the constraint is (?!), which matches no name.
rule derive:
    input:
        lambda wildcards: tasks.derive(experiment, wildcards.cell).input_files,
    output:
        directory(f"{RESULTS}/cells/{{cell}}/policy"),
    log:
        f"{RESULTS}/logs/derive/{{cell}}.log",
    wildcard_constraints:
        cell="|".join(map(re.escape, experiment.derived)) or "(?!)",
    localrule: True
    params:
        settings=lambda wildcards: tasks.derive(experiment, wildcards.cell).settings_hash,
    shell:
        rspo_command("derive {wildcards.cell}")


ruleorder: derive > train


# The profile of SLURM says what a training requests for all GPUs of a node. A cell of a model with
# fewer `gpus` requests its share.
share_gpus(rules.train.rule, experiment)
