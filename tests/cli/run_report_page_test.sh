#!/usr/bin/env bash
# Opens report pages in headless Chromium: every chart is drawn, in the colours of its runs, without
# an error on the console.
#   run_report_page_test.sh NORMBALL WORK_DIRECTORY PYTHON
set -euo pipefail
normball=$1
work=$2
python=$3
here=$(dirname "$0")
browser=$(command -v chromium || true)
if [ -z "$browser" ]; then
  echo "skipped: chromium is not installed (Debian: chromium)"
  exit 77
fi
rm -rf "$work"
mkdir -p "$work"

# The test's own eyes, added to a copy of the page: how many pixels of each canvas are coloured, and
# what still works after every switch has been used.
cat >"$work/probe.html" <<'PROBE'
<script>
const errors = [];
addEventListener("error", (event) => errors.push(event.message));
addEventListener("load", () => setTimeout(() => {
  const coloured = (canvas) => {
    const copy = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height});
    const pen = copy.getContext("2d", {willReadFrequently: true});  // or the browser complains
    pen.drawImage(canvas, 0, 0);
    const data = pen.getImageData(0, 0, copy.width, copy.height).data;
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
      const [r, g, b, a] = data.slice(i, i + 4);
      if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 60) ++count;
    }
    return count;
  };
  const drawn = () => [...document.querySelectorAll("canvas")]
    .map((c) => c.dataset.metric + ":" + (coloured(c) > 150 ? "drawn" : "blank:" + coloured(c))).join(" ");
  const before = drawn();
  const lowest = [...document.querySelectorAll("canvas")]
    .map((c) => c.dataset.metric + ":" + Chart.getChart(c).scales.y.min).join(" ");
  for (const button of document.querySelectorAll("button")) button.click();
  const box = document.querySelector("td.run input");
  box.click();
  const off = document.querySelectorAll("tr.off").length;
  box.click();
  const after = drawn();
  document.title = "probe";
  document.body.append(Object.assign(document.createElement("pre"), {id: "probe", textContent:
    `before ${before}\nafter ${after}\nhidden ${off}\ntheme ${document.documentElement.dataset.theme}\n` +
    `rows ${document.querySelectorAll("tbody tr").length}\nwide ${document.documentElement.scrollWidth > innerWidth}\n` +
    `cut ${document.querySelector(".scroll").scrollWidth > document.querySelector(".scroll").clientWidth}\n` +
    `lowest ${lowest}\nbest ${document.querySelectorAll("td.best").length}\n` +
    `errors ${errors.join("; ")}`}));
}, 500));
</script>
PROBE

# open_page NAME: page-NAME.html with the probe becomes dom-NAME.html.
open_page() {
  cat "$work/probe.html" "$work/page-$1.html" >"$work/probed-$1.html"
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
    --enable-logging=stderr --window-size=1200,1000 --virtual-time-budget=10000 --dump-dom \
    "file://$(realpath "$work")/probed-$1.html" >"$work/dom-$1.html" 2>"$work/log-$1.txt"
}

failures=0
for count in 1 2 10; do
  "$python" "$here/run_synthetic.py" "$work/runs-$count" "$count"
  "$normball" report "$work/runs-$count"/* --out "$work/page-$count.html" >/dev/null
  open_page "$count"
  all="loss:drawn val_loss:drawn val_accuracy:drawn dual_norm:drawn eta:drawn lr:drawn"
  for line in "before $all" "after $all" "hidden 1" "theme dark" "rows $count" "wide false" "cut false"; do
    if ! sed -n '/<pre id="probe">/,/<\/pre>/p' "$work/dom-$count.html" | grep -F -- "$line" >/dev/null; then
      echo "$count runs: no '$line' in:"
      sed -n '/<pre id="probe">/,/<\/pre>/p' "$work/dom-$count.html"
      failures=$((failures + 1))
    fi
  done
  if ! grep -qE '^errors ?</pre>' "$work/dom-$count.html" || grep -q CONSOLE "$work/log-$count.txt"; then
    echo "$count runs: errors:"
    grep -h -E '^errors|CONSOLE' "$work/dom-$count.html" "$work/log-$count.txt" || true
    failures=$((failures + 1))
  fi
done

# A run that stopped at once: its one point is seen, its values near 1 fill the axis, and none is the best of two tasks.
mkdir -p "$work/stopped" "$work/other"
printf '[model]\nkind = "gpt"\n' >"$work/stopped/config.toml"
printf '[model]\nkind = "cnn"\n' >"$work/other/config.toml"
printf '{"step": 1, "loss": 2.5, "eta": 0.98}\n{"step": 2, "loss": "NaN", "nonfinite": "loss", "stopped": true}\n' \
  >"$work/stopped/metrics.jsonl"
printf '{"step": 1, "loss": 2.5, "eta": 1.3}\n' >"$work/other/metrics.jsonl"
"$normball" report "$work/stopped" --out "$work/page-stopped.html" >/dev/null
"$normball" report "$work/stopped" "$work/other" --out "$work/page-both.html" >/dev/null
open_page stopped
open_page both
for check in "stopped before loss:blank:[1-9]" "stopped lowest .*eta:0.5$" "both best 0" "both <li>The runs differ in model or data"; do
  if ! grep -qE -- "${check#* }" "$work/dom-${check%% *}.html"; then
    echo "no '${check#* }' in the page '${check%% *}':"
    sed -n '/<pre id="probe">/,/<\/pre>/p' "$work/dom-${check%% *}.html"
    failures=$((failures + 1))
  fi
done
grep -qE "^best [1-9]" "$work/dom-2.html" || { echo "no best of two runs of one task"; failures=$((failures + 1)); }
exit "$((failures > 0))"
