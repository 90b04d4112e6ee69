# Trainings before the real ones, such as `snakemake stress` and `snakemake pilot`: each is a target that
# trains the cells of a trial, and then says whether their logs show what they must.
#
# A rule without an output: it runs each time, and fails if the trial fails, at once because another try
# would find the same. The name of the trial is a param, because Snakemake evaluates `shell` again when
# the loop has ended.
for trial in experiment.config.trials:

    rule:
        name:
            trial
        input:
            [str(path) for path in trials.files(experiment, trial)],
        log:
            f"{RESULTS}/logs/trial/{trial}.log",
        retries: 0
        localrule: True
        params:
            trial=trial,
        shell:
            rspo_command("trial {params.trial}")
