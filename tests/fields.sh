#!/bin/sh
# docs/field-reports.md against the tests: each row's id occurs in each test file that the row names (a word of its own),
# and the rows of a section count up without a gap. Prints what is wrong and fails. Another table: tests/fields.sh FILE
cd "$(dirname "$0")/.." || exit 2
bad=0 last=
table=${1:-docs/field-reports.md}
rows=$(sed -n 's/^| *\([A-Z][0-9][0-9]\) *|.*| *\(`[^|]*\)|$/\1 \2/p' "$table" | tr -d '`,')
while read -r id files; do
    [ -n "$id" ] || continue
    number=${id#?} number=${number#0} section=${id%??}
    case $last in
    "$section"*) next=$((${last#?} + 1)) ;;
    *) next=1 ;;
    esac
    [ "$number" = "$next" ] || { echo "$table: $id, expected number $next of its section" && bad=1; }
    last=$section$number
    [ -n "$files" ] || { echo "$table: $id names no test" && bad=1; }
    for file in $files; do
        if [ ! -f "$file" ]; then
            echo "$table: $id names $file, which is not there" && bad=1
        elif ! grep -qw "$id" "$file"; then
            echo "$table: $id does not occur in $file" && bad=1
        fi
    done
done <<END
$rows
END
# A row that was not understood would go unchecked.
told=$(grep -c '^| *[A-Z][0-9]' "$table") read=$(printf '%s\n' "$rows" | grep -c .)
[ "$told" -gt 0 ] && [ "$told" = "$read" ] || { echo "$table: $read of $told rows end with a test in backquotes" && bad=1; }
[ $bad = 0 ] && echo "fields ok"
exit $bad
