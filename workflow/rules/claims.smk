# Compare the paper's claims with the measurements.
rule claims:
    input:
        claims.step(experiment).input_files,
    output:
        report(
            multiext(f"{REPORTS}/", "claims.csv", "claim_comparisons.csv"),
            caption="../report/claims.rst",
            category="Claims",
        ),
    log:
        f"{RESULTS}/logs/claims.log",
    params:
        settings=claims.step(experiment).settings_hash,
    shell:
        rspo_command("claims")
