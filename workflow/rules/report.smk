# The report: one HTML page.
rule report:
    input:
        report_page.step(experiment).input_files,
    output:
        f"{REPORTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    localrule: True
    params:
        settings=report_page.step(experiment).settings_hash,
    shell:
        "rspo report 2>&1 | tee -ip {log}"


# The results as a page of the documentation. No other target needs it.
rule results_page:
    input:
        [path for path, _ in report_page.results_inputs(experiment)],
    output:
        "docs/results.md",
    log:
        f"{RESULTS}/logs/results.log",
    localrule: True
    params:
        settings=report_page.step(experiment).settings_hash,
    shell:
        "rspo results {output} 2>&1 | tee -ip {log}"
