#!/bin/sh
# The table of table-row.json, made on this machine: six pairs of runs, a recipe over them, and the row if it wins.
# sh table-row.sh [FOLDER]   ($CADRE: the command, default cadre; FOLDER: default table-row.tables beside this script)
set -e
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-$here/table-row.tables}
cadre=${CADRE:-cadre}
shape="--shape E=3,d=1024,f=256,k=3 --layers 32 --m 4,16 --repeat 6 --visit-ms 20 --probe-mb 64"
mkdir -p "$to"
rm -f "$to"/*.table "$to/samples.jsonl"
run() { # of the bench with these switches: its id
    # shellcheck disable=SC2086
    "$cadre" bench moe $shape --set tables=off --out "$to/samples.jsonl" --json "$@" 2>/dev/null |
        sed -n 's/.*"run":"\([0-9a-f]*\)".*/\1/p'
}
with="" without=""
for pair in 1 2 3 4 5 6; do
    a=$(run --set experts.chunk=4) b=$(run)
    echo "pair $pair: runs $a and $b"
    with="$with${with:+, }\"$a\"" without="$without${without:+, }\"$b\""
done
cat >"$to/recipe.json" <<END
{"cadre_recipe": 1,
 "rows": [{"samples": "samples.jsonl", "n": [4, 16],
           "runs": [$with], "default_runs": [$without]}]}
END
"$cadre" table build "$to/recipe.json" -o "$to/"
