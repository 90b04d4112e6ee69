rule pretrain:
    output:
        directory(f"{RESULTS}/cells/{{model}}--base/policy"),
    localrule: True
    log:
        f"{RESULTS}/logs/pretrain/{{model}}.log",
    params:
        settings=settings("pretrain", "model"),
    shell:
        "rspo pretrain {wildcards.model} {OPTIONS} 2>&1 | tee -i {log}"
