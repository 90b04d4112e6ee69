# The report: one HTML page.
rule report:
    input:
        [str(path) for path in report_inputs(experiment)],
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=settings("report"),
    shell:
        "rspo report 2>&1 | tee -ip {log}"


rule publish_report:
    input:
        f"{RESULTS}/report.html",
    output:
        f"{REPORTS}/report.html",
    localrule: True
    params:
        scale=SCALE,
    shell:
        "cp {input}{{,.provenance.json}} {REPORTS}/"


# The results as a page of the documentation. No other target needs it.
rule results_page:
    input:
        [str(path) for path in results_inputs(experiment)],
    output:
        "docs/results.md",
    log:
        f"{RESULTS}/logs/results.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=settings("report"),
    shell:
        "rspo results {output} 2>&1 | tee -ip {log}"
