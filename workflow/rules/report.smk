# The report: one HTML page with all figures and tables.
rule report:
    input:
        report_page.task(experiment).input_files,
    output:
        update(f"{REPORTS}/report.html"),
    log:
        f"{RESULTS}/logs/report.log",
    localrule: True
    params:
        settings=lambda _: report_page.task(experiment).settings_hash,
    shell:
        rspo_command("report --force")


# Pages of docs/, from the evidence that is committed beside them. With `update`, a page stays as it was
# if `rspo evidence page` refuses its evidence.
PAGES = [path.stem for path in sorted(Path("docs/evidence").glob("*.parquet"))]
TEMPLATES = sorted(map(str, Path("rspo").glob("**/*.jinja")))


rule docs:
    input:
        [f"docs/{'' if page == 'results' else 'studies/'}{page}.md" for page in PAGES],


rule results_page:
    input:
        TEMPLATES,
        # The page and README have some of their differences, too.
        [f"docs/studies/{page}.md" for page in PAGES if page in report_page.PUBLISHED],
        evidence="docs/evidence/results.parquet",
    output:
        update("docs/results.md"),
        update(directory("docs/results")),
    log:
        f"{RESULTS}/logs/page/results.log",
    localrule: True
    shell:
        rspo_command("evidence page results")


rule study_page:
    input:
        TEMPLATES,
        template_of_study,
        evidence="docs/evidence/{study}.parquet",
    output:
        update(multiext("docs/studies/{study}", ".md", ".png", ".csv", "_methods.csv")),
    log:
        f"{RESULTS}/logs/page/{{study}}.log",
    # The page of results waits for these, and takes longest.
    priority: lambda wildcards: int(wildcards.study in report_page.PUBLISHED)
    localrule: True
    shell:
        rspo_command("evidence page {wildcards.study}")
