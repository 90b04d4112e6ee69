# Compare the paper's claims with the measurements.
rule claims:
    input:
        claims.step(experiment).input_files,
    output:
        multiext(f"{REPORTS}/", "claims.csv", "claim_comparisons.csv"),
    log:
        f"{RESULTS}/logs/claims.log",
    params:
        settings=claims.step(experiment).settings_hash,
    shell:
        "rspo claims 2>&1 | tee -ip {log}"
