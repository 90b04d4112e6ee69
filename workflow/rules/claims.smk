# Compare the paper's claims with the measurements. Here and in the rules of figures, tables and the
# report: with `update`, the old file stays until --force replaces it by a whole one.
rule claims:
    input:
        claims.task(experiment).input_files,
    output:
        report(
            update(multiext(f"{REPORTS}/", "claims.csv", "claim_comparisons.csv")),
            caption="../report/claims.rst",
            category="Claims",
        ),
    log:
        f"{RESULTS}/logs/claims.log",
    params:
        settings=lambda _: claims.task(experiment).settings_hash,
    shell:
        rspo_command("claims --force")
