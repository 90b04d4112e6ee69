# Comparisons beyond the paper's, made on request: `snakemake reports/fig_peers.pdf`.
rule study:
    input:
        lambda wildcards: STUDIES[wildcards.study].inputs(experiment),
    output:
        multiext(f"{RESULTS}/tables/{{study}}", ".csv", ".md"),
    log:
        f"{RESULTS}/logs/study/{{study}}.log",
    wildcard_constraints:
        study="|".join(STUDIES) or "(?!)",
    params:
        settings=lambda wildcards: fingerprint(STUDIES[wildcards.study].settings(experiment)),
    shell:
        "rspo study {wildcards.study} {OPTIONS} 2>&1 | tee -ip {log}"


# The study as a page of the documentation. No other target needs it.
rule study_page:
    input:
        page=f"{RESULTS}/tables/{{study}}.md",
        picture=f"{RESULTS}/figures/fig_{{study}}.png",
        table=f"{RESULTS}/tables/{{study}}.csv",
    output:
        multiext("docs/studies/{study}", ".md", ".png", ".csv"),
    localrule: True
    shell:
        "for file in {input}; do cp $file docs/studies/{wildcards.study}.${{file##*.}}; done"
