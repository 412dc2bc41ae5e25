#!/usr/bin/env python3
"""Checks that bench/report/results.json has the agreed form and that its ratios follow from its values."""
import json
import math
import pathlib
import sys

import report

ROWS = pathlib.Path(__file__).resolve().parent.parent / "report" / "results.json"


def faults_of(row):
    """What is wrong with a row, as sentences."""
    if tuple(row) != report.ROW_KEYS:
        yield f"unexpected keys: {', '.join(row)}"
        return
    for peer in row["peers"]:
        if tuple(peer) != report.PEER_KEYS:
            yield f"unexpected keys of a peer: {', '.join(peer)}"
            return
        if (peer["value"] is None) != (peer["version"] == "absent"):
            yield f"{peer['name']}: expected either a value or the version absent"
    for name in ("floor", "goal"):
        if row[name] and row["ours"] is not None and row["ratio"] is not None and report.meets(row, row[name]) is None:
            yield f"{name} cannot be checked: {row[name]}"
    values = [peer["value"] for peer in row["peers"] if peer["value"] is not None]
    if row["ratio"] is None or row["shape"].startswith("geomean"):
        return
    best = row["ours"] / max(values) if row["unit"].endswith("/s") else min(values) / row["ours"]
    if not math.isclose(best, row["ratio"], rel_tol=1e-6):
        yield f"ratio is {row['ratio']}; its values give {best}"


def faults_of_details(row):
    """The same of a row that still has its details."""
    return [f"{report.title(row['problem'])}, {row['shape']}: {fault}" for fault in faults_of(report.bare(row))]


def main():
    content = json.loads(ROWS.read_text())
    faults = [f"{row.get('problem')}, {row.get('shape')}: {fault}"
              for row in content["rows"] for fault in faults_of(row)]
    if tuple(content) != ("machine", "date", "rows") or not content["rows"]:
        faults.append("expected a report with machine, date and rows")
    broken = {**content["rows"][0], "ratio": 1e9}
    if not list(faults_of(broken)):
        faults.append("a wrong ratio passes this check")
    print("\n".join(faults) or f"{len(content['rows'])} rows")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
