#!/bin/sh
# Opens reports in a real Chromium: light, dark and narrow; no request leaves the page, nothing is logged, nothing
# overflows, text has contrast, keys work, and the tables hold the figures of the samples. Skipped, with the reason, where
# there is no Chromium. Usage: tests/lab/browser.sh BUILD [FOLDER for screenshots]
cd "$(dirname "$0")/../.." || exit 2
build=${1:-build} shots=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
    echo "skipped: no Chromium here (apt-get install chromium)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)) && echo "FAILED $*"; }

# chromium ARGS...: with a profile of its own and its log; whatever it asks of the network on its own finds no host.
chromium() {
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-extensions \
        --disable-background-networking --disable-component-update --host-resolver-rules="MAP * ~NOTFOUND" \
        --user-data-dir="$dir/profile" --allow-file-access-from-files --enable-logging=stderr "$@" 2>"$dir/log"
}

# open_in NAME WIDTH SCHEME (0 dark, 1 light): what holds of the report goes into $dir/found.
open_in() {
    chromium --blink-settings=preferredColorScheme="$3" --window-size="$2,900" --virtual-time-budget=4000 --dump-dom \
        "file://$PWD/tests/lab/browser.html?$2,file://$dir/$1.html" |
        sed -n '/<pre id="found">/,/<\/pre>/p' | sed 's/.*<pre id="found">//; s/<\/pre>.*//; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >"$dir/found"
}

look() {
    open_in "$1" "$2" "$3"
    grep -q '^done$' "$dir/found" || fail "$1 $2 $3: was not looked at"
    while read -r line; do
        case $line in
        "ok "*) pass ;;
        FAILED*) fail "$1, $2 px, scheme $3: ${line#FAILED }" ;;
        esac
    done <"$dir/found"
    if grep -q ':CONSOLE' "$dir/log"; then fail "$1: $(grep ':CONSOLE' "$dir/log" | head -3)"; else pass; fi
    [ -z "$shots" ] || chromium --blink-settings=preferredColorScheme="$3" --window-size="$2,3200" \
        --screenshot="$shots/$1-$2-$3.png" "file://$dir/$1.html" >/dev/null
}

# row NAME CELL|CELL|...: a row of a table.
row() {
    if grep -qxF "row $2" "$dir/found"; then pass; else fail "$1 has no row $2"; fi
}

report() {
    name=$1 && shift
    "$build/cadre" ab report "$@" -o "$dir/$name.html" >/dev/null || [ $? -eq 1 ] || fail "$name was not written"
    "$build/cadre" ab report "$@" -o "$dir/again.html" >/dev/null
    cut='s/-o [^ ]*//; s/again\.html//; s/'$name'\.html//'
    sed "$cut" "$dir/$name.html" >"$dir/a" && sed "$cut" "$dir/again.html" >"$dir/b"
    if cmp -s "$dir/a" "$dir/b"; then pass; else fail "$name differs when it is written again"; fi
}

hostile='<script>document.title="run"</script>"><img src=x>'
sed "s|\"arm\":\"ON\"|\"arm\":\"$(printf %s "$hostile" | sed 's/[\\"]/\\\\&/g')\"|" docs/samples/decode-ab.jsonl >"$dir/hostile.jsonl"
cat >"$dir/profile.json" <<'END'
{"profile": [{"op": "experts", "kernel": "up", "launches": 48, "us": 3600, "share": 0.72, "floor_us": 2484},
             {"op": "router", "kernel": null, "launches": 48, "us": 1400, "share": 0.28, "floor_us": null}]}
END
# Three factors, four visits, noise from a fixed sequence, warm-ups, long names.
awk 'BEGIN { srand(3); split("8 7.4 6.6 6.0 7.8 7.2 6.5 5.8", mean)
    for (visit = 1; visit <= 4; visit++) for (mask = 0; mask < 8; mask++) {
        order++; off = (rand() - 0.5) * 0.05; name = mask ? "" : "none"
        if (mask % 2) name = "router gate in fp32"
        if (int(mask / 2) % 2) name = name (name ? "+" : "") "num_stages"
        if (mask > 3) name = name (name ? "+" : "") "moe_sum"
        for (i = 1; i <= 4; i++) printf "{\"kind\":\"ab\",\"run\":\"r\",\"arm\":\"%s\",\"visit\":%d,\"order\":%d,\"iteration\":%d,\"warmup\":%s,\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":%.4f,\"drafts\":100,\"accepted\":313,\"draft_tokens\":600,\"load\":0.5}\n",
            name, visit, order, i, i == 1 ? "true" : "false", mean[mask + 1] * (i == 1 ? 1.5 : 1) + off + rand() * 0.04
    } }' >"$dir/factors.jsonl"
report factors "$dir/factors.jsonl" --factors "router gate in fp32,num_stages,moe_sum"
report decode docs/samples/decode-ab.jsonl --title 'Token counting: blocks of 128 threads against 1024'
report stack docs/samples/stack-ab.jsonl --profile "$dir/profile.json"
report hostile "$dir/hostile.jsonl"
for look in "1400 1" "1400 0" "400 1" "400 0" "320 1"; do
    # shellcheck disable=SC2086
    look decode $look
    row decode 'ON|10|2|23543.5|23545.2|23.1|24.2|23510.6|23580.0'
    row decode 'OFF (reference)|10|2|23016.4|23016.0|18.0|17.9|22993.6|23050.6'
    row decode 'points|20'
    row decode 'outcome|outcome win'
done
for look in "1400 1" "400 0"; do
    # shellcheck disable=SC2086
    look stack $look
    row stack '241 x 242|-26.96 %|5.967|6.001|-0.57 %|6.120|-2.51 %'
    row stack 'experts|up|48|3600|72.0 %|2484|0.69'
    # shellcheck disable=SC2086
    look factors $look
    row factors 'points|128'
    # shellcheck disable=SC2086
    look hostile $look
    row hostile "$hostile|10|2|23543.5|23545.2|23.1|24.2|23510.6|23580.0"
done

# Faults that are planted must be found.
sed "s|<main id=\"main\">|&<p style=\"width:3000px;color:#ddd;background:#fff\" id=\"s0\">x</p><p id=\"s0\"></p><img src=\"https://example.org/a.png\">|
    s|<meta http-equiv[^>]*>||; s|ArrowRight: at + 1, ||" "$dir/decode.html" >"$dir/planted.html"
open_in planted 400 1
for what in "no overflow" "nothing is loaded" "ids are unique" "contrast of text" "a key shows a sample"; do
    if grep -q "^FAILED $what" "$dir/found"; then pass; else fail "a planted fault was not found: $what"; fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
