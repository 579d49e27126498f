"""One table of all runs."""

NOT_INSTALLED = "not installed"

# Best peer's time over ours that is asked for, on two threads.
AT_LEAST = {
    "f32": {
        "mlp-tiny": 8, "mlp": 1.05, "cnn": 1.4, "cnn-separable": 2, "cnn-dense": 1.6, "unet": 1.5, "resnet50": 1.2,
        "gpt-nano": 1.18, "attention-long": 1.5, "lstm": 1.35, "recsys": 1.6, "input-grad": 1.12,
        "batch-jacobian": 1.5, "pipeline": 10, "pipeline-batched": 3,
    },
    "bf16": {"gpt-nano": 1.3, "resnet50": 1.15, "mlp": 1.1, "cnn": 1.3},
}


def best(runs):
    """Minima over the rounds of one engine in one mode."""
    keys = ("step_ms_min", "first_step_s", "peak_rss_mb")
    return {**runs[0], **{key: min(run[key] for run in runs) for key in keys}}


def best_of_modes(runs):
    """The engine and mode with the least time among these runs, or None."""
    groups = {}
    for run in runs:
        groups.setdefault((run["engine"], run["mode"]), []).append(run)
    return min(map(best, groups.values()), key=lambda run: run["step_ms_min"], default=None)


def best_limits(first, second):
    """The better of two measurements of what the machine can do, for each number of threads."""
    better = lambda key, a, b: a if b is None else b if a is None else (min if key.endswith("_ns") else max)(a, b)
    return [{key: better(key, one[key], other[key]) for key in one} for one, other in zip(first, second)]


def row_of(workload, runs, kind, peak_gflops, precision, missing):
    """What the table says of one workload. missing: the peers that are not installed."""
    mine = [run for run in runs if run["workload"] == workload]
    ours = best_of_modes([run for run in mine if run["engine"] == "thalweg"])
    peer = best_of_modes([run for run in mine if run["engine"] != "thalweg"])

    def share(run):
        if not run or not peak_gflops or not kind["gflop"]:
            return None
        return kind["gflop"] / (run["step_ms_min"] / 1e3) / peak_gflops

    return {
        "workload": workload, "precision": precision, "ours": ours, "peer": peer, "missing": list(missing),
        "ratio": peer["step_ms_min"] / ours["step_ms_min"] if ours and peer else None,
        "at_least": AT_LEAST[precision].get(workload), "share": share(ours), "peer_share": share(peer),
    }


def number(value):
    """Three digits that matter, as text."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}"


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def cells(row):
    ours, peer = row["ours"], row["peer"]
    of = lambda run, key: number(run[key]) if run else "-"
    mib = lambda run: str(run["peak_rss_mb"]) if run else "-"
    return [
        row["workload"],
        of(ours, "step_ms_min") if ours else "failed",
        of(peer, "step_ms_min") if peer else NOT_INSTALLED if row["missing"] else "-",
        f"{peer['engine']} {peer['mode']}" if peer else "-",
        number(row["ratio"]),
        "-" if row["at_least"] is None else f"{row['at_least']:g}",
        percent(row["share"]), percent(row["peer_share"]),
        mib(ours), mib(peer),
        of(ours, "first_step_s"), of(peer, "first_step_s"),
    ]


TITLES = ["workload", "ours ms", "best peer ms", "which", "ratio", "at least", "of peak", "peer's",
          "peak MiB", "peer's", "first step s", "peer's"]


def text(rows):
    """The table, its columns as wide as they need to be; words to the left, numbers to the right."""
    lines = [TITLES, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(TITLES))]
    words = {0, 3}
    out = []
    for line in lines:
        parts = [cell.ljust(w) if i in words else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))]
        out.append("  ".join(parts).rstrip())
    missing = sorted({name for row in rows for name in row["missing"]})
    if missing:
        out.append(f"{NOT_INSTALLED}: {', '.join(missing)}")
    return "\n".join(out)
