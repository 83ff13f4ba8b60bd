// Builds the page from the JSON in #runs: a table of results and one chart for each metric.
"use strict";
(() => {
  const runs = JSON.parse(document.getElementById("runs").textContent);
  const oneTask = document.getElementById("runs").dataset.oneTask === "yes";
  const palettes = {  // told apart also with colour blindness; dashes from the seventh on
    light: ["#0072b2", "#d55e00", "#009e73", "#b8479a", "#8c6d1f", "#5b6775", "#0072b2", "#d55e00", "#009e73", "#b8479a"],
    dark: ["#56b4e9", "#ff9f43", "#35c99a", "#e58ac9", "#d9b84a", "#a9b4c0", "#56b4e9", "#ff9f43", "#35c99a", "#e58ac9"],
  };
  const metrics = [
    {key: "loss", title: "Training loss", note: "of the logged steps", smooth: true, log: false},
    {key: "val_loss", title: "Validation loss", note: "lower is better", log: false, points: true},
    {key: "val_accuracy", title: "Validation accuracy", note: "higher is better", log: false, points: true, percent: true},
    {key: "iterate_val_loss", title: "Validation loss of the last iterate", note: "beside that of the average", log: false, points: true},
    {key: "iterate_val_accuracy", title: "Validation accuracy of the last iterate", note: "beside that of the average", log: false, points: true, percent: true},
    {key: "dual_norm", title: "s = ⟨d, v⟩", note: "dual norm of d; where constrained, the Wolfe gap", smooth: true, log: true},
    {key: "eta", title: "η", note: "the rule's answer to s; at ρ the step is clipped", smooth: true, log: true},
    {key: "full_dual_norm", title: "Dual norm of the full gradient", note: "of the training set, without momentum", log: true, points: true},
    {key: "full_gap", title: "Wolfe gap of the full gradient", note: "of the training set, without momentum", log: true, points: true},
    {key: "full_loss", title: "Loss over the training set", note: "beside the full gradient", log: false, points: true},
    {key: "probe_ratio", title: "Smoothness along the path", note: "‖g(y) − g(x)‖* over ‖y − x‖ of a step, on its batch", log: true, points: true},
    {key: "step_length", title: "Step length γη", note: "of a rule that finds it; in units of the balls' radii", log: true},
    {key: "rho", title: "ρ", note: "of clipping that finds it", log: true},
    {key: "lr", title: "Learning rate γρ", note: "the largest step", log: false},
  ];
  const state = {
    theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
    x: "step", smoothing: 0.8, hidden: new Set(),
  };

  // ---- small helpers
  const element = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const digits = (value, n = 4) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2).replace("e+", "e");
    return String(Number(value.toPrecision(n)));
  };
  const percent = (value) => (value === null ? "–" : (100 * value).toFixed(2) + " %");
  const duration = (seconds) => {
    if (seconds === null) return "–";
    const s = Math.round(seconds), two = (x) => String(x).padStart(2, "0");
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + ":" + two(s % 60) + " min";
    return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + " h";
  };
  const count = (value) => {
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (value >= size) return digits(value / size, 3) + unit;
    }
    return digits(value, 3);
  };
  const color = (index) => palettes[state.theme][index % 10];
  const dash = (index) => (index < 6 ? [] : [7, 4]);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const numbers = (run, key) => (run.curves[key] ? run.curves[key].value.filter((v) => v !== null) : []);

  // What runs are judged by, in columns as `normball report` prints them. Training losses count where there is no
  // validation at all.
  const judges = [
    {key: "val_accuracy", label: "accuracy", show: percent, better: Math.max},
    {key: "val_loss", label: "val loss", show: (value) => digits(value, 5), better: Math.min},
    {key: "loss", label: "loss", show: (value) => digits(value, 5), better: Math.min},
  ];
  const used = judges.filter((judge) => runs.some((run) => run.curves[judge.key]));
  const results = used.filter((judge) => used.length === 1 || judge.key !== "loss").flatMap(({key, label, show, better}) => {
    const best = (values) => (values.length ? values.reduce((a, b) => better(a, b)) : null);
    const column = (word, valueOf) => {
      const values = runs.map((run) => (run.curves[key] ? valueOf(run) : undefined));
      const known = values.filter((v) => v !== null && v !== undefined), top = best(known);
      const text = (value) => (value === undefined ? "–" : value === null ? "not finite" : show(value));
      return {head: word + " " + label, cell: (i) => [text(values[i]), oneTask && known.length > 1 && values[i] === top ? "best" : null]};
    };
    return [column("final", (run) => run.curves[key].value[run.curves[key].value.length - 1]),
      column("best", (run) => best(numbers(run, key)))];
  });

  // ---- the table
  const rows = runs.map((run, i) => {
    const set = run.settings, cell = (text, look) => element("td", {class: look}, text);
    const box = element("input", {type: "checkbox", checked: "", onchange: () => toggle(i, box.checked)});
    return element("tr", {},
      element("td", {class: "run"}, element("label", {title: "show or hide"}, box, element("span", {class: "swatch"}),
        element("span", {}, run.name))),
      cell([set.method || "–", set.stepsize, set.average].filter(Boolean).join(", ").replaceAll("_", " "), "words"), cell(set.lr || "–"), cell(set.rho || "–"), cell(set.schedule || "–", "words"),
      ...results.map((column) => cell(...column.cell(i))),
      run.diverged ? element("td", {}, run.steps.toLocaleString("en") + " ", element("span", {class: "bad"}, "✕ diverged"))
        : run.nonfinite === null ? cell(run.steps.toLocaleString("en"))
        : run.skipped ? element("td", {}, run.steps.toLocaleString("en") + " ",
          element("span", {class: "bad", title: "not finite, the first at step " + run.nonfinite}, run.skipped + " skipped"))
        : element("td", {}, element("span", {class: "bad", title: "the loss was not finite"}, "✕ at " + run.nonfinite)),
      cell(run.clipped === null ? "–" : Math.round(100 * run.clipped) + " %"), cell(duration(run.seconds)),
      element("td", {}, run.throughput === null ? "–" : count(run.throughput) + " ",
        run.throughput === null ? null : element("small", {}, run.items + "/s")));
  });
  const heads = [["run"], ["method", "words"], ["lr"], ["ρ"], ["schedule", "words"],
    ...results.map((column) => [column.head]), ["steps"], ["clipped"], ["time"], ["throughput"]];
  const table = element("table", {}, element("thead", {}, element("tr", {},
    ...heads.map(([text, look]) => element("th", {class: look || null}, text)))), element("tbody", {}, ...rows));

  // ---- the charts
  // Runs log at different steps: the tooltip takes from each curve the point nearest to the pointer.
  Chart.Interaction.modes.nearestOfEach = (chart, event, options, final) => {
    const x = Chart.helpers.getRelativePosition(event, chart).x;
    return chart.getSortedVisibleDatasetMetas().flatMap((meta) => {
      if (!chart.data.datasets[meta.index].label) return [];
      let best = -1, distance = Infinity;
      meta.data.forEach((point, index) => {
        const away = Math.abs(point.getProps(["x"], final).x - x);
        if (away < distance && Number.isFinite(chart.data.datasets[meta.index].data[index].y)) {
          [best, distance] = [index, away];
        }
      });
      return best < 0 ? [] : [{element: meta.data[best], datasetIndex: meta.index, index: best}];
    });
  };

  // Exponential average with the start's bias removed; a gap starts it anew.
  const smoothed = (points, weight) => {
    let average = 0, norm = 0;
    return points.map((p) => {
      if (!Number.isFinite(p.y)) { average = norm = 0; return p; }
      average = weight * average + (1 - weight) * p.y;
      norm = weight * norm + (1 - weight);
      return {x: p.x, y: average / norm};
    });
  };
  const points = (run, metric, log) => {
    const curve = run.curves[metric.key];
    if (!curve) return [];
    return curve.value.map((value, i) => ({
      x: state.x === "step" ? curve.step[i] : curve.seconds[i],
      y: value === null || (log && value <= 0) ? NaN : value,
    })).filter((p) => p.x !== null);
  };

  const makeChart = (metric) => {
    const canvas = element("canvas", {"data-metric": metric.key, role: "img", "aria-label": metric.title});
    const own = {log: metric.log};
    const choose = (log) => { own.log = log; refresh(); };
    const linear = element("button", {type: "button", onclick: () => choose(false)}, "linear");
    const logarithmic = element("button", {type: "button", onclick: () => choose(true)}, "log");
    const card = element("section", {class: "card chart"}, element("div", {class: "head"},
      element("div", {}, element("h2", {}, metric.title), element("p", {}, metric.note)),
      element("span", {class: "switch"}, linear, logarithmic)), element("div", {class: "plot"}, canvas));

    // Points that no line leads to would not be seen.
    const marked = (raw, k) => {
      const gap = (j) => j < 0 || j >= raw.length || !Number.isFinite(raw[j].y);
      return (metric.points && raw.length <= 40) || (gap(k - 1) && gap(k + 1));
    };
    const datasets = () => runs.flatMap((run, i) => {
      const raw = points(run, metric, own.log);
      const dense = metric.smooth && state.smoothing > 0 && raw.length > 20;
      const base = {borderColor: color(i), backgroundColor: color(i), hidden: state.hidden.has(i), spanGaps: false, clip: 4};
      const line = {...base, label: run.name, data: dense ? smoothed(raw, state.smoothing) : raw, borderWidth: 2,
        borderDash: dash(i), tension: 0, pointRadius: raw.map((p, k) => (marked(raw, k) ? 3 : 0)),
        pointHoverRadius: 4, order: i};
      // The values themselves stay visible, faint, behind their average.
      const faint = {...base, data: raw, borderColor: color(i) + (runs.length > 3 ? "22" : "40"), borderWidth: 1,
        pointRadius: 0, pointHoverRadius: 0, order: 100 + i};
      return dense ? [line, faint] : [line];
    });
    const axis = () => ({grid: {color: css("--grid"), borderColor: css("--line")}, ticks: {color: css("--soft")}});
    // The next of 1, 2 and 5 times a power of ten below or above: the library would take whole powers.
    const round = (value, up) => {
      const power = 10 ** Math.floor(Math.log10(value));
      const steps = [1, 2, 5, 10].map((factor) => factor * power);
      return up ? steps.find((step) => step > value) || 20 * power : steps.filter((step) => step < value).pop() || power / 2;
    };
    // A constant curve lies in the middle: the library would show it from -1 to 1.5.
    const limits = () => {
      const values = runs.flatMap((run, i) => (state.hidden.has(i) ? [] : numbers(run, metric.key)));
      const [value] = values;
      if (own.log) {
        const positive = values.filter((v) => v > 0);
        const low = positive.reduce((a, b) => Math.min(a, b), Infinity), high = positive.reduce((a, b) => Math.max(a, b), 0);
        return positive.length && high < 20 * low ? {min: round(low, false), max: round(high, true)} : {};
      }
      if (!values.length || values.some((v) => v !== value)) return {};
      if (value === 0) return {suggestedMin: 0, suggestedMax: metric.percent ? 0.1 : 1};
      const room = 0.1 * Math.abs(value);
      return {suggestedMin: value - room, suggestedMax: metric.percent ? Math.min(1, value + room) : value + room};
    };
    const scales = () => ({
      x: {type: "linear", ...axis(), min: 0, title: {display: true, text: state.x === "step" ? "step" : "time", color: css("--soft")},
        ticks: {color: css("--soft"), maxRotation: 0, autoSkipPadding: 24,
          callback: (value) => (state.x === "step" ? (value >= 1000 ? count(value) : value) : duration(value))}},
      y: {type: own.log ? "logarithmic" : "linear", ...axis(), ...limits(),
        ticks: {color: css("--soft"), maxTicksLimit: 7,
          callback: (value) => (metric.percent ? Number((100 * value).toPrecision(4)) + " %" : digits(value, 4))}},
    });
    const chart = new Chart(canvas, {
      type: "line", data: {datasets: []},
      options: {
        animation: false, parsing: false, normalized: true, responsive: true, maintainAspectRatio: false,
        interaction: {mode: "nearestOfEach", intersect: false},
        plugins: {
          legend: {display: false},
          tooltip: {
            itemSort: (a, b) => (metric.percent ? b.parsed.y - a.parsed.y : a.parsed.y - b.parsed.y),
            callbacks: {
              title: (items) => (items.length ? (state.x === "step" ? "step " + items[0].parsed.x.toLocaleString("en")
                : duration(items[0].parsed.x)) : ""),
              label: (item) => " " + item.dataset.label + ": " +
                (metric.percent ? percent(item.parsed.y) : digits(item.parsed.y, 5)),
            },
          },
        },
      },
    });
    const refresh = () => {
      linear.setAttribute("aria-pressed", String(!own.log));
      logarithmic.setAttribute("aria-pressed", String(own.log));
      chart.data.datasets = datasets();
      chart.options.scales = scales();
      chart.update("none");
    };
    return {card, refresh};
  };
  const charts = metrics.filter((metric) => runs.some((run) => numbers(run, metric.key).length)).map(makeChart);

  const layers = layerCard(runs, {element, digits, css});

  // ---- the switches
  const pressed = (buttons, chosen) => buttons.forEach(([key, node]) => node.setAttribute("aria-pressed", String(key === chosen)));
  const choice = (field, options) => {
    const buttons = options.map(([key, text]) => [key, element("button", {type: "button", onclick: () => {
      state[field] = key;
      pressed(buttons, key);
      refresh();
    }}, text)]);
    pressed(buttons, state[field]);
    return element("span", {class: "switch"}, ...buttons.map(([, node]) => node));
  };
  const shown = element("output", {}, state.smoothing.toFixed(2));
  const slider = element("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: state.smoothing, oninput: () => {
    state.smoothing = Number(slider.value);
    shown.textContent = state.smoothing.toFixed(2);
    refresh();
  }});
  const timed = runs.some((run) => Object.values(run.curves).some((curve) => curve.seconds.some((s) => s !== null)));
  const toggle = (index, visible) => {
    state.hidden[visible ? "delete" : "add"](index);
    refresh();
  };
  const refresh = () => {
    document.documentElement.dataset.theme = state.theme;
    rows.forEach((row, i) => {
      row.className = state.hidden.has(i) ? "off" : "";
      const swatch = row.querySelector(".swatch");
      swatch.style.background = dash(i).length
        ? `repeating-linear-gradient(90deg, ${color(i)} 0 10px, transparent 10px 16px)` : color(i);
    });
    charts.forEach((chart) => chart.refresh());
    if (layers) layers.refresh();
  };

  const remarks = runs.flatMap((run) => run.remarks.map((text) => element("li", {}, run.name + ": " + text)));
  if (!oneTask) {
    remarks.push(element("li", {}, "The runs differ in model or data: their results do not compare, and none is marked as the best."));
  }
  document.querySelector("main").append(
    element("header", {}, element("div", {}, element("h1", {}, runs.length === 1 ? runs[0].name : "Comparison of runs"),
      element("p", {}, runs.length === 1 ? "a training run of normball" : runs.length + " training runs of normball")),
      element("div", {class: "tools"}, element("label", {}, "smoothing", slider, shown),
        timed ? choice("x", [["step", "steps"], ["seconds", "time"]]) : null, choice("theme", [["light", "light"], ["dark", "dark"]]))),
    element("div", {class: "card scroll"}, table, remarks.length ? element("ul", {class: "remarks"}, ...remarks) : null),
    element("div", {class: "charts"}, ...charts.map((chart) => chart.card), layers && layers.card));
  document.fonts.ready.then(refresh);
  refresh();
})();
