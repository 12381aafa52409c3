// The page has one section per query, which is created once and filled again at every event.

const sections = new Map();
const state = document.getElementById("state");
const empty = document.getElementById("empty");

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const number = (value) => (value < 1e6 ? whole.format(Math.round(value)) : short.format(value));
const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 2 : 1)}%`;
const bytes = (value) => {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${value < 10 && at ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
};
const seconds = (value) => {
  if (value === 0) return "0 s";
  if (value < 1) return `${Number((1000 * value).toPrecision(3))} ms`;
  if (value < 60) return `${value.toPrecision(3)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [size, name] = units.find(([least]) => value >= least);
  return `${(value / size).toFixed(1)} ${name}`;
};
const time = (microseconds) => {
  const date = new Date(microseconds / 1000);
  return Number.isNaN(date.getTime()) ? String(microseconds) : date.toISOString().slice(0, 19).replace("T", " ");
};
const DAY = 86400;
// Describe how far an event time in seconds is behind the clock, or the time itself for old data.
const behind = (at, now) => (Math.abs(now - at) < DAY
  ? `${seconds(Math.max(0, now - at))} behind the clock` : `at ${time(1e6 * at)}`);

function element(kind, text, className) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// ---- charts -------------------------------------------------------------------------------------

function tiles(query, now) {
  const [median, most] = query.waits;
  const rate = query.points.length ? query.points[query.points.length - 1].in : 0;
  const found = [
    ["rows in", number(query.rows_in), `${number(rate)} per second`],
    ["rows out", number(query.rows_out), ""],
    ["late", query.late_share === null ? "–" : percent(query.late_share),
      query.target === null ? `${number(query.late)} rows` : `target ${percent(query.target)}`],
    ["held", query.held === null ? "–" : number(query.held), query.held === null ? "" : "rows"],
    ["rows wait", median === null ? "–" : seconds(median), median === null ? "" : `99%: ${seconds(most)}`],
    ["oldest held", query.waited === null ? "–" : seconds(query.waited), query.waited === null ? "" : "since its arrival"],
    ["punctuation behind", query.lag === null ? "–" : seconds(query.lag),
      query.punctuation === null ? "" : behind(query.punctuation, now)],
    ["micro-batch", query.seconds === null ? "–" : seconds(query.seconds), `${number(query.batches)} so far`],
    ["state", bytes((query.state.memory || 0)), query.state.disk ? `${bytes(query.state.disk)} on disk` : "in memory"],
  ];
  return found.map(([name, value, more]) => {
    const tile = element("div");
    const shown = element("dd", value);
    shown.dataset.tile = name;
    tile.append(element("dt", name), shown);
    if (more) tile.append(element("small", more));
    return tile;
  });
}

function table(columns, rows) {
  const head = element("tr");
  for (const [name, numeric] of columns) head.append(element("th", name, numeric ? "number" : ""));
  return [head, ...rows.map((cells) => {
    const row = element("tr");
    cells.forEach((cell, at) => {
      if (cell instanceof Node) row.append(cell);
      else row.append(element("td", cell, columns[at][1] ? "number" : ""));
    });
    return row;
  })];
}

// State columns of the operators' table: heading, text of an operator (or ""), whether a number.
const text = (value, of) => (value === null || value === undefined ? "" : of(value));
const STANDS = [
  ["keys", (one) => (one.keys ? number(one.keys) : ""), true],
  ["wait, median", (one) => text(one.waits[0], seconds), true],
  ["99%", (one) => text(one.waits[1], seconds), true],
  ["oldest held", (one) => text(one.shown.waited, seconds), true],
  ["punctuation", (one) => text(one.shown.punctuation, time), false],
  ["waits for", (one) => text(one.shown.slowest, String), false],
  ["window holds", (one) => text(one.shown.window_size, number), true],
  ["rows required", (one) => (one.shown.window_size ? text(one.shown.window_rows, number) : ""), true],
  ["pruned", (one) => text(one.pruned, percent), true],
];

function operators(query) {
  const counters = [...new Set(query.operators.flatMap((one) =>
    one.side === "answers" ? [] : Object.keys(one.counts).filter((name) => one.counts[name])))];
  const parts = query.operators.filter((one) => one.side !== "answers");
  const stands = STANDS.filter(([, of]) => parts.some((one) => of(one) !== ""));
  const columns = [["operator", false], ...counters.map((name) => [name === "late" ? "marked late" : name.replaceAll("_", " "), true])];
  columns.push(...stands.map(([name, , numeric]) => [name, numeric]));
  const rows = parts.map((one) => [
    one.side ? `${one.name}, ${one.side}` : one.name,
    ...counters.map((c) => (c in one.counts ? number(one.counts[c]) : "")),
    ...stands.map(([, of]) => of(one)),
  ]);
  return table(columns, rows);
}

// The table of a query's rankings: the answers so far, and the times at which each is due next.
function rankings(query) {
  const columns = [["ranking", false], ["answers", true], ["due next", false], ["after that", false]];
  const rows = query.operators.filter((one) => one.side !== "answers" && one.due.length).flatMap((one) => {
    const given = query.operators.find((other) => other.side === "answers" && other.name === one.name);
    const names = [...new Set([...Object.keys(given ? given.counts : {}), ...one.due.flatMap((run) => run.queries)])];
    return names.map((name) => {
      const runs = one.due.filter((run) => run.queries.includes(name)).map((run) => time(run.at));
      return [`${one.name}: ${name}`, given ? number(given.counts[name] || 0) : "",
        runs[0] || "", runs.slice(1, 3).map((at) => at.slice(11)).join(", ")];
    });
  });
  return rows.length ? table(columns, rows) : [];
}

function answers(query) {
  const rows = query.answers.rows.map((row) => row.map(([text, share]) => {
    const cell = element("td");
    if (share !== null) {
      const bar = element("span", undefined, "bar");
      const filled = element("i");
      filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
      bar.append(filled);
      cell.append(bar);
    }
    cell.append(text);
    return cell;
  }));
  return table(query.answers.columns.map((name) => [name, false]), rows);
}

// ---- charts -------------------------------------------------------------------------------------

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function config() {
  const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
  return {
    background: null, font: "system-ui, 'DejaVu Sans', sans-serif",
    view: { stroke: null },
    axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 11 },
    legend: { labelColor: ink, labelFontSize: 11, title: null, orient: "top", offset: 2, symbolType: "stroke", symbolStrokeWidth: 3 },
    range: { category: ["--first", "--second", "--third", "--fourth", "--fifth"].map(colour) },
  };
}

const spec = (layer) => ({
  $schema: "https://vega.github.io/schema/vega-lite/v6.json",
  width: "container", height: "container", autosize: { type: "fit", contains: "padding" },
  config: config(), ...layer,
});
const at = { field: "at", type: "temporal", title: null, axis: { grid: false, tickCount: 5, labelOverlap: true } };
const amount = (format) => ({
  field: "value", type: "quantitative", title: null, axis: { format, tickCount: 4 }, scale: { zero: true, nice: true },
});
const lines = (format, several) => ({
  mark: { type: "line", interpolate: "linear", strokeWidth: 1.8 },
  encoding: {
    x: at, y: amount(format),
    color: several
      ? { field: "name", type: "nominal", sort: null }
      : { value: colour("--first") },
  },
});
const unit = (query, of) => {
  const most = Math.max(0, ...query.points.map((p) => of(p) || 0));
  return [[86400, "days"], [3600, "hours"], [60, "minutes"]].find(([size]) => most >= 2 * size) || [1, "seconds"];
};
const lag = (point) => point.lag;
const longest = (point) => point.waits[1];
const charts = {
  rows: {
    spec: () => spec(lines("~s", true)),
    data: (query) => query.points.flatMap((p) => [
      { at: p.at, name: "in", value: p.in }, { at: p.at, name: "out", value: p.out }]),
  },
  late: {
    spec: (query) => spec({
      layer: [
        lines("~%", false),
        ...(query.target === null ? [] : [{
          mark: { type: "rule", strokeDash: [4, 3], color: colour("--second") },
          encoding: { y: { datum: query.target } },
        }]),
      ],
    }),
    data: (query) => query.points.filter((p) => p.late !== null).map((p) => ({ at: p.at, value: p.late })),
    shown: (query) => query.late > 0 || query.target !== null,
  },
  lag: {
    spec: () => spec(lines("~r", false)),
    data: (query) => query.points.filter((p) => p.lag !== null).map((p) => ({ at: p.at, value: p.lag / unit(query, lag)[0] })),
    title: (query) => `Punctuation behind the newest held row, ${unit(query, lag)[1]}`,
  },
  wait: {
    spec: () => spec(lines("~r", true)),
    data: (query) => {
      const [size] = unit(query, longest);
      return query.points.filter((p) => p.waits[0] !== null).flatMap((p) => [
        { at: p.at, name: "median", value: p.waits[0] / size },
        { at: p.at, name: "99%", value: p.waits[1] / size }]);
    },
    title: (query) => `Holding time of emitted rows, ${unit(query, longest)[1]}`,
  },
  parts: {
    spec: () => spec({
      mark: { type: "area", interpolate: "step-after" },
      encoding: {
        x: at, y: { ...amount("~r"), stack: "zero" },
        color: { field: "name", type: "nominal", sort: null, legend: { symbolType: "square", columns: 3 } },
      },
    }),
    data: (query) => {
      const sums = {};
      for (const p of query.points) for (const [name, of] of Object.entries(p.parts)) sums[name] = (sums[name] || 0) + of;
      const most = Object.keys(sums).sort((a, b) => sums[b] - sums[a]).slice(0, 4);
      return query.points.flatMap((p) => {
        const rest = Object.entries(p.parts).filter(([n]) => !most.includes(n)).reduce((s, [, v]) => s + v, 0);
        return [...most.map((name) => ({ at: p.at, name, value: p.parts[name] || 0 })),
          { at: p.at, name: "other", value: rest }];
      });
    },
  },
};

async function draw(section, query) {
  for (const [name, chart] of Object.entries(charts)) {
    const place = section.element.querySelector(`.${name}`);
    const values = chart.data(query);
    const shown = values.length > 0 && (chart.shown ? chart.shown(query) : true);
    place.parentElement.hidden = !shown;
    if (chart.title) place.previousElementSibling.textContent = chart.title(query);
    if (!shown) continue;
    if (section.views[name]) {
      await section.views[name].data("points", values).resize().runAsync();
      continue;
    }
    const drawn = { ...chart.spec(query), data: { name: "points", values } };
    const how = { actions: false, renderer: "svg", tooltip: false };
    section.views[name] = (await window.vegaEmbed(place, drawn, how)).view;
  }
}

dark.addEventListener("change", () => {
  for (const section of sections.values()) {
    section.views = {};
    draw(section, section.query);
  }
});

// ---- events -------------------------------------------------------------------------------------

function sectionOf(query) {
  if (!sections.has(query.name)) {
    const made = document.getElementById("query").content.cloneNode(true).firstElementChild;
    made.dataset.query = query.name;
    document.getElementById("queries").append(made);
    sections.set(query.name, { element: made, views: {}, busy: Promise.resolve() });
  }
  return sections.get(query.name);
}

function fill(query, now) {
  const section = sectionOf(query);
  const of = (selector) => section.element.querySelector(selector);
  section.query = query;
  of(".name").textContent = query.name;
  of(".status").textContent = query.error ? "failed" : query.active ? "running" : "ended";
  of(".dot").className = `dot ${query.error ? "failed" : query.active ? "active" : ""}`;
  of(".said").replaceChildren(...query.said.map((one) => element("li", one.text)));
  of(".tiles").replaceChildren(...tiles(query, now));
  of(".operators").hidden = !query.operators.length;
  of(".operators table").replaceChildren(...operators(query));
  const due = rankings(query);
  of(".rankings").hidden = !due.length;
  of(".rankings table").replaceChildren(...due);
  of(".answers").hidden = !query.answers.rows.length;
  of(".answers table").replaceChildren(...answers(query));
  for (const name of ["sql", "plan"]) {
    of(`.${name}`).hidden = !query[name];
    of(`.${name} pre`).textContent = query[name];
  }
  section.busy = section.busy.then(() => draw(section, section.query));
}

// ---- events -------------------------------------------------------------------------------------

// The page contains the token only once; for reloads, the tab stores it, for this port only. Cookies
// are sent to all ports of the host, so they give no access to data.
const given = document.querySelector("meta[name=token]").content;
if (given) sessionStorage.setItem("token", given);
const token = given || sessionStorage.getItem("token");
const AGAIN = 3000; // milliseconds before the next attempt

function show({ now, queries }) {
  empty.hidden = queries.length > 0;
  for (const query of queries) fill(query, now);
  state.textContent = `as of ${new Date(now * 1000).toLocaleTimeString()}`;
  document.body.dataset.ready = "yes";
}

async function receiveEvents() {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch("events", { headers, cache: "no-store" });
  if (!answer.ok) throw new Error(answer.statusText);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      // In a separate task, so that an error in `show` is not mistaken for a lost connection.
      if (event.startsWith("data: ")) setTimeout(show, 0, JSON.parse(event.slice(6)));
    }
  }
}

async function reconnect() {
  for (;;) {
    await receiveEvents().catch(() => {});
    state.textContent = "the run has ended or cannot be reached";
    await new Promise((resolve) => { setTimeout(resolve, AGAIN); });
  }
}

if (token) reconnect();
else state.textContent = "this tab has no token: open the address that was printed";
