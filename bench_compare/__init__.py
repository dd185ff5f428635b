"""bench-compare: holds result documents against each other, with statistics that can be trusted.

For scripts::

    from bench_compare.comparison.compare import compare
    from bench_compare.comparison.conclusion import conclude
    from bench_compare.input.load import load
    from bench_compare.policy import Policy
    from bench_compare.input.sides import Grouping, group

    sources, remarks = load(["before.json", "after.json"])
    base, others = group(sources, Grouping())
    comparison = compare(base, others, Policy(threshold_ratio=0.02))
"""
