rule pretrain:
    output:
        directory(f"{RESULTS}/cells/{{model}}--base/policy"),
    log:
        f"{RESULTS}/logs/pretrain/{{model}}.log",
    localrule: True
    params:
        settings=settings("pretrain", "model"),
    shell:
        "rspo pretrain {wildcards.model} {MIRROR_OPTION} {OPTIONS} 2>&1 | tee -ip {log}"
