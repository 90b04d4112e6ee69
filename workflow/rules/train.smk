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
        prompt=judge_prompt(experiment.config.verifier),
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
        "rspo train {wildcards.cell} {OPTIONS} 2>&1 | tee -i {log}"
