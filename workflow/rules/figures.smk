rule figure:
    input:
        lambda wildcards: figure_of(wildcards).inputs(experiment),
    output:
        multiext(f"{RESULTS}/figures/{{figure}}", *SUFFIXES),
    log:
        f"{RESULTS}/logs/figure/{{figure}}.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=lambda wildcards: fingerprint(figure_of(wildcards).settings(experiment)),
    shell:
        "rspo figure {wildcards.figure} 2>&1 | tee -ip {log}"


rule tables:
    input:
        [
            f"{RESULTS}/cells/{policy}/curves/{suite}.parquet"
            for policy, suite in experiment.evaluations
        ],
    output:
        f"{RESULTS}/tables/curves.csv",
    log:
        f"{RESULTS}/logs/tables.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=settings("tables"),
    shell:
        "rspo tables 2>&1 | tee -ip {log}"


# Responses without an answer, different answers, and pass^k of every policy.
rule answers:
    input:
        [str(path) for path in experiment.scored_samples],
    output:
        f"{RESULTS}/tables/answers.csv",
    log:
        f"{RESULTS}/logs/answers.log",
    conda:
        CONDA
    params:
        settings=settings("answers"),
    shell:
        "rspo answers 2>&1 | tee -ip {log}"


# Time and GPUs that the jobs of every policy used.
rule cost:
    input:
        rules.tables.input,
    output:
        f"{RESULTS}/tables/cost.csv",
    log:
        f"{RESULTS}/logs/cost.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=settings("cost"),
    shell:
        "rspo cost 2>&1 | tee -ip {log}"


# reports/ has the files of the scale that ran last (see run.smk); results/ has one folder per scale. A
# folder chosen with `--config results=DIR` has its own reports. Each file is copied with its provenance.
rule publish_figure:
    input:
        multiext(f"{RESULTS}/figures/{{figure}}", *SUFFIXES),
    output:
        f"{REPORTS}/{{figure}}.pdf",
        report(
            f"{REPORTS}/{{figure}}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        f"{REPORTS}/{{figure}}.csv",
    localrule: True
    params:
        scale=SCALE,
        caption=lambda wildcards: full_caption(experiment, figure_of(wildcards)),
    shell:
        "for file in {input}; do cp $file{{,.provenance.json}} {REPORTS}/; done"


rule publish_table:
    input:
        f"{RESULTS}/tables/{{table}}.csv",
    output:
        f"{REPORTS}/tables/{{table}}.csv",
    localrule: True
    params:
        scale=SCALE,
    shell:
        "cp {input}{{,.provenance.json}} {REPORTS}/tables/"
