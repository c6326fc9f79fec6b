// Shows what /beats tells, and lets others hear of it as the event "beat".
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

function draw(tag, facts, text) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) one.setAttribute(name, value);
  if (text !== undefined) one.textContent = text;
  return one;
}
function room(id) { return Math.max(280, $(id).clientWidth || 280); }
function picture(width, height, label) {
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}
function showHead({ head, waits, straggler, times }) {
  document.title = `${head.state} - ${head.name}`;
  $("name").textContent = head.name;
  $("state").textContent = head.state;
  $("state").className = `chip ${STATES[head.state] || "calm"}`;
  const silent = head.silent_s !== null;
  $("silent").hidden = !silent;
  if (silent) $("silent").textContent = `no answer from the coordinator for ${lasting(head.silent_s)}`;
  let told = head.trouble || head.changing || head.reason || "";
  if (!told && waits.length) {
    const first = waits[0];
    told = first.whom ? `${first.by} ${first.by.includes(",") ? "wait" : "waits"} for ${first.whom} (${first.kind}), for ${lasting(first.since_s)}`
      : `${first.by}: ${first.reason}, for ${lasting(first.since_s)}`;
  }
  if (!told && straggler) {
    const advice = straggler.has_backup ? "" : "; sync:backup=1 would not wait";
    const s = straggler, share = Math.round(100 * s.lost_s / s.lasted_s);
    told = `${s.trainer} came last to ${s.times} of the last ${s.rounds} rounds: ${share} % of their time was waiting for it, ${lasting(s.ever_s)} so far${spentMost(times, s.trainer)}${advice}`;
  }
  if (head.no_room && !head.is_over) told = [told, head.no_room].filter(Boolean).join("; ");
  const is_known = !silent && !head.is_over && head.state !== "not heard of";
  $("answer").textContent = told || (is_known ? "nobody is waited for" : "");
  const share = head.total ? head.records / head.total : 0;
  $("done").value = head.is_over && head.state !== "failed" ? 1 : share;
  const facts = [
    ["pace", head.pace], ["epoch", head.epoch],
    ["records", head.records === undefined ? undefined : number.format(head.records) + (head.total ? ` of ${number.format(head.total)}` : "")],
    ["records/s", head.rate === undefined || head.rate === null ? undefined : number.format(head.rate)],
    ["left", head.left_s === null || head.left_s === undefined ? undefined : lasting(head.left_s)],
    ["took", head.seconds === undefined || head.seconds === null ? undefined : lasting(head.seconds)],
    ["last checkpoint", head.cut_age_s === undefined ? undefined : head.is_over ? `cut ${head.cut}` : `${lasting(head.cut_age_s)} ago`],
    ["timeline", head.timeline],
    ...Object.entries(head.metrics || {}).map(([name, value]) => [name, shown(value)]),
  ].filter(([, value]) => value !== undefined && value !== "");
  $("facts").replaceChildren(...facts.map(([name, value]) => {
    const group = make("div");
    group.append(make("dt", name), make("dd", value));
    return group;
  }));
}

function showRoles(roles, more) {
  $("s-roles").hidden = !roles.length;
  $("roles").replaceChildren(...roles.map((role) => {
    const row = make("tr", undefined, role.is_waited_for ? "whom" : "");
    const wait = role.wait;
    const cells = [role.id, role.host, role.pid, role.state];
    row.append(...cells.map((text) => make("td", text)), make("td", role.role === "trainer" ? number.format(role.clock) : "", "n"), make("td", role.role === "trainer" ? number.format(role.records) : "", "n"),
      make("td", wait ? `${wait.whom ? wait.whom + ": " : ""}${wait.kind}` : ""), make("td", wait ? lasting(wait.since_s) : "", "n"));
    if (wait) row.title = wait.reason;
    return row;
  }));
  $("more").textContent = more ? `and ${number.format(more)} more, which nobody waits for` : "";
}

function showQueue(queue) {
  const kinds = ["done", "pending", "failed", "todo"], total = queue ? kinds.reduce((sum, kind) => sum + queue[kind], 0) : 0;
  $("s-queue").hidden = !total;
  if (!total) return;
  const svg = picture(400, 46, kinds.map((kind) => `${queue[kind]} ${kind}`).join(", "));
  let x = 0;
  for (const kind of kinds) {
    const width = 400 * queue[kind] / total;
    if (width) svg.append(draw("rect", { x, y: 4, width, height: 16, class: kind }));
    x += width;
  }
  svg.append(draw("text", { x: 0, y: 38 }, kinds.map((kind) => `${number.format(queue[kind])} ${kind}`).join("   ")));
  $("queue").replaceChildren(svg);
}

function showClocks(clocks) {
  const named = Object.entries(clocks.of || {}), band = clocks.band;
  const is_bound = clocks.bound !== null && clocks.bound !== undefined && (named.length || band);
  $("s-clocks").hidden = !is_bound;
  if (!is_bound) return;
  const values = band || named.map(([, clock]) => clock);
  const least = Math.min(...values), bound = clocks.bound;
  const most = Math.max(...values, bound === null || bound === undefined ? 0 : least + bound, least + 3);
  const left = 90, width = room("clocks"), at = (clock) => left + (width - left - 40) * (clock - least) / (most - least);
  const rows = band ? 1 : named.length, svg = picture(width, 26 + 18 * rows, "clocks of trainers");
  if (bound !== null && bound !== undefined) {
    svg.append(draw("rect", { x: at(least), y: 0, width: at(least + bound) - at(least), height: 18 * rows + 4, class: "band" }));
  }
  if (band) {
    svg.append(draw("rect", { x: at(band[1]), y: 4, width: Math.max(2, at(band[3]) - at(band[1])), height: 10, class: "band" }));
    for (const clock of band) svg.append(draw("circle", { cx: at(clock), cy: 9, r: 3.5, class: "dot" }));
    svg.append(draw("text", { x: 0, y: 13 }, `${number.format(clocks.number)} trainers`));
  }
  named.forEach(([name, clock], n) => {
    svg.append(draw("text", { x: 0, y: 13 + 18 * n }, name), draw("circle", { cx: at(clock), cy: 9 + 18 * n, r: 5, class: "dot" }));
  });
  svg.append(draw("text", { x: left, y: 20 + 18 * rows, class: "soft" }, number.format(least)),
    draw("text", { x: width - 40, y: 20 + 18 * rows, class: "soft", "text-anchor": "middle" }, number.format(most)));
  $("clocks").replaceChildren(svg);
}

function showRounds(rounds, is_over) {
  $("s-rounds").hidden = !rounds.length || is_over;
  if (!rounds.length || is_over) return;
  const names = [...new Set(rounds.flatMap(([came]) => Object.keys(came)))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const most = Math.max(...rounds.map(([came]) => Math.max(...Object.values(came))), 0.001);
  const left = 90, width = room("rounds"), step = 18, height = step * names.length + 22;
  const svg = picture(width, height, "each trainer's arrivals at the last rounds; the last one is marked");
  const at = (s) => left + 5 + (width - left - 60) * s / most;
  names.forEach((name, n) => {
    svg.append(draw("text", { x: 0, y: 13 + step * n }, name), draw("line", { x1: left, x2: width, y1: 9 + step * n, y2: 9 + step * n, class: "axis" }));
  });
  for (const [came, last] of rounds) {  // a dot is a line without length: one path has all of a round
    let early = "", late = "";
    names.forEach((name, n) => {
      const dot = name in came ? `M${at(came[name]).toFixed(1)} ${9 + step * n}h0` : "";
      if (name === last) late += dot; else early += dot;
    });
    svg.append(draw("path", { d: early, class: "early" }), draw("path", { d: late, class: "last" }));
  }
  svg.append(draw("text", { x: left, y: height - 4, class: "soft" }, "0 ms"),
    draw("text", { x: at(most), y: height - 4, class: "soft", "text-anchor": "middle" }, `${number.format(1000 * most)} ms`));
  $("rounds").replaceChildren(svg);
}

function showLanes(now) {
  const lanes = now.lanes, left = 90, width = room("lanes"), step = 20, end = Math.max(now.at_s, 1);
  const at = (s) => left + (width - left) * s / end, height = step * lanes.length + 34;
  const svg = picture(width, height, "a lane for each role");
  lanes.forEach((lane, n) => {
    const y = step * n + 4;
    svg.append(draw("text", { x: 0, y: y + 10 }, lane.id), draw("line", { x1: left, x2: width, y1: y + 6, y2: y + 6, class: "axis" }));
    for (const [begin, stop, how, why] of lane.spans) {
      const x = at(begin), until = at(stop === null ? end : stop);
      const bar = draw("rect", { x, y: y + 2, width: Math.max(1.5, until - x), height: 9, rx: 2, class: "span" });
      if (why) bar.append(draw("title", {}, why));
      svg.append(bar);
      if (how === "died") svg.append(draw("path", { d: `M${until - 4} ${y + 2} l8 8 m0 -8 l-8 8`, class: "died" }));
    }
  });
  const floor = step * lanes.length + 4;
  for (const [s, kind, text] of now.marks) {
    const line = draw("line", { x1: at(s), x2: at(s), y1: kind === "cut" ? floor - 3 : 0, y2: floor + 3, class: kind });
    line.append(draw("title", {}, text));
    svg.append(line);
  }
  for (let n = 0; n <= 4; n++) {
    svg.append(draw("text", { x: at(end * n / 4), y: floor + 18, class: "soft", "text-anchor": n === 4 ? "end" : n ? "middle" : "start" }, lasting(end * n / 4, end)));
  }
  $("lanes").replaceChildren(svg);
  $("more-lanes").textContent = now.lanes_left_out ? `and ${number.format(now.lanes_left_out)} more roles` : "";
  $("marks").replaceChildren(...now.latest.map(([s, text]) => {
    const item = make("li");
    item.append(make("time", lasting(s)), make("span", text));
    return item;
  }));
}

const curves = new Map();
function takeCurves(news) {
  for (const [name, [halvings, first, seconds, values]] of Object.entries(news)) {
    let one = curves.get(name);
    if (!one) {
      one = { halvings, data: [[], []], plot: null };
      curves.set(name, one);
    }
    if (halvings !== one.halvings || first === 0) one.data = [[], []];
    one.halvings = halvings;
    one.data[0].push(...seconds);
    one.data[1].push(...values);
    showCurve(name, one);
  }
}
function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function showCurve(name, one) {
  if (one.plot) { one.plot.setData(one.data); return; }
  const place = make("figure");
  place.style.margin = "0";
  $("curves").append(place);
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  one.plot = new uPlot({
    title: name, width: Math.max(280, place.clientWidth), height: 190, scales: { x: { time: false } }, cursor: { y: false },
    series: [{}, { stroke: color("--blue"), width: 1.5, points: { show: (plot) => plot.data[0].length < 3, size: 6, fill: color("--blue") } }],
    axes: [{ ...axis, values: (_, ticks) => ticks.map((s) => lasting(s, ticks[ticks.length - 1] - ticks[0])) }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => short.format(tick)) }],
  }, one.data, place);
}
function redraw() {
  $("curves").replaceChildren();
  for (const [name, one] of curves) { one.plot = null; showCurve(name, one); }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let pending = 0;
addEventListener("resize", () => { clearTimeout(pending); pending = setTimeout(redraw, 150); });

let beats = 0;
function show(now, news) {
  showHead(now);
  showQueue(now.queue);
  showClocks(now.clocks);
  showRounds(now.rounds, now.head.is_over);
  showRoles(now.roles, now.more_roles);
  showLanes(now);
  takeCurves(news);
  document.dispatchEvent(new CustomEvent("beat", { detail: now }));
  document.body.dataset.beats = String(++beats);
}

const saved = $("picture");
if (saved) {
  const told = JSON.parse(saved.textContent);
  show(told.now, told.curves);
} else {
  let isOver = false;  // what is shown stays true
  hear({
    opened: () => curves.forEach((one) => { one.data = [[], []]; }),
    beat: (told) => {
      isOver = Boolean(told.now.head.is_over);
      show(told.now, told.curves);
    },
    isOver: () => isOver,
  });
}
