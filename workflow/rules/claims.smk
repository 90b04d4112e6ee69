# Compare the paper's claims with the measurements.
rule claims:
    input:
        claim_inputs(experiment),
    output:
        multiext(f"{RESULTS}/tables/", "claims.csv", "claims.md", "claim_comparisons.csv"),
    log:
        f"{RESULTS}/logs/claims.log",
    conda:
        CONDA
    params:
        settings=settings("claims"),
    shell:
        "rspo claims 2>&1 | tee -ip {log}"


rule publish_claims:
    input:
        multiext(f"{RESULTS}/tables/claims", ".csv", ".md"),
    output:
        multiext(f"{REPORTS}/claims", ".csv", ".md"),
    localrule: True
    params:
        scale=SCALE,
    shell:
        "for file in {input}; do cp $file{{,.provenance.json}} {REPORTS}/; done"
