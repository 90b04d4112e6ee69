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
        base=lambda wildcards: f"{RESULTS}/cells/{experiment.cell(wildcards.cell).model}--base/policy",
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
