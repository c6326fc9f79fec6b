// What time went into: trainers' time, servers' slots; and which roles are on which machine.
"use strict";
const KINDS = [["read", "reads"], ["compute", "computes"], ["servers", "waits for servers"], ["others", "waits for others"]];
const percent = (share) => `${Math.round(100 * share)} %`;
const bytes = new Intl.NumberFormat("en", { notation: "compact", style: "unit", unit: "byte", unitDisplay: "narrow", maximumSignificantDigits: 3 });

// What most of a trainer's own time goes into, in words; empty if that is not known.
function spentMost(times, trainer) {
  const shares = times && times.of[trainer];
  if (!shares) return "";
  const own = shares.slice(0, 3), most = own.indexOf(Math.max(...own));
  return own[most] > 0 ? `; it ${KINDS[most][1]} ${percent(own[most])} of its time` : "";
}

function showTimes(times) {
  const rows = Object.entries(times.of);
  $("h-times").textContent = `What trainers' time went into, in the last ${times.is_whole ? "run" : "minute"}`;
  $("s-times").hidden = !rows.length;
  if (!rows.length) return;
  if (times.number > rows.length) rows.unshift([`${number.format(times.number)} (mean)`, times.mean]);
  const named = (shares) => KINDS.map(([, verb], n) => `${verb} ${percent(shares[n])}`).join(", ");
  const told = rows.map(([name, shares]) => [name, shares, `waits ${percent(shares[2] + shares[3])}`, `${name} ${named(shares)}`]);
  $("times").replaceChildren(legendOf(KINDS), bars("times", "what trainers' time went into", told, KINDS.map(([kind]) => kind), 104));
}

// A bar a row, of shares; what is left of it is something else.
function bars(id, label, rows, kinds, right) {
  const left = 90, width = room(id), step = 20, svg = picture(width, step * rows.length, label), whole = width - left - right;
  rows.forEach(([name, shares, told, title], n) => {
    const y = step * n, bar = draw("g", {});
    bar.append(draw("title", {}, title), draw("rect", { x: left, y: y + 2, width: whole, height: 12, class: "on-none" }));
    let at = left;
    kinds.forEach((kind, k) => {
      const wide = Math.min(whole * shares[k], width - right - at);
      if (wide > 0.3) bar.append(draw("rect", { x: at, y: y + 2, width: wide, height: 12, class: `on-${kind}` }));
      at += Math.max(0, wide);
    });
    svg.append(draw("text", { x: 0, y: y + 12 }, name), bar, draw("text", { x: width, y: y + 12, class: "soft", "text-anchor": "end" }, told));
  });
  return svg;
}

function legendOf(kinds) {
  const legend = make("p", undefined, "legend");
  for (const [kind, words] of kinds) {
    const swatch = draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
    swatch.append(draw("rect", { width: 10, height: 10, class: `on-${kind}` }));
    const one = make("span");
    one.append(swatch, words);
    legend.append(one);
  }
  return legend;
}

function showForeseen(told) {
  $("s-foreseen").hidden = !told.told && !told.parts;
  if ($("s-foreseen").hidden) return;
  const kinds = ["compute", "servers", "others"], rows = told.parts ? ["measured", "forecast"] : [];
  const named = (shares) => told.parts.map((part, n) => `${part} ${percent(shares[n])}`).join(", ");
  $("foreseen").replaceChildren(...(told.parts ? [
    legendOf(kinds.map((kind, n) => [kind, told.parts[n]])),
    bars("foreseen", "the forecast beside what was measured", rows.map((name, n) => [name, told[name], `${number.format(told.rates[n])} records/s`, `${name}: ${named(told[name])}`]), kinds, 130),
  ] : []));
  $("foreseen-told").textContent = told.told;
  $("paces").replaceChildren(...(told.paces || []).map(([pace, times]) => {
    const one = make("li"), command = (told.commands || {})[pace];
    one.append(make("code", pace), ` ${times.toFixed(1)} times the records/s`);
    if (command) one.append(": ", make("code", command, "command"));
    return one;
  }));
}

function showServers(servers) {
  $("s-servers").hidden = !servers.length;
  if (!servers.length) return;
  const left = 90, width = room("servers"), step = 42, svg = picture(width, step * servers.length - 4, "how busy each server's slots were");
  servers.forEach((one, n) => {
    const y = step * n, wide = (width - left) / one.cells.length, gap = wide > 6 ? 2 : wide > 3 ? 1 : 0;
    svg.append(draw("text", { x: 0, y: y + 13 }, one.id));
    svg.append(draw("path", { d: one.cells.map((_, k) => `M${(left + wide * k).toFixed(1)} ${y + 1}h${Math.max(0.5, wide - gap).toFixed(1)}v16h${-Math.max(0.5, wide - gap).toFixed(1)}z`).join(""), class: "cell" }));
    one.cells.forEach(([slot, share, longest], k) => {
      // The root: that a slot has something to do is seen, too.
      const seen = Math.sqrt(Math.min(1, share)).toFixed(3);
      const cell = draw("rect", { x: left + wide * k, y: y + 1, width: Math.max(0.5, wide - gap), height: 16, class: "hot", "fill-opacity": seen });
      cell.append(draw("title", {}, `slot ${slot}: busy for ${percent(share)} of the time, at most ${longest} waited`));
      svg.append(cell);
    });
    svg.append(draw("text", { x: width < 400 ? 0 : left, y: y + 32, class: "soft" }, `busiest ${percent(one.busy)}, ${one.longest} waited, ${bytes.format(one.in_per_s)}/s in, ${bytes.format(one.out_per_s)}/s out`));
  });
  $("servers").replaceChildren(svg);
}

function showHosts(hosts) {
  $("s-hosts").hidden = !hosts.length;
  $("hosts").replaceChildren(...hosts.map((one) => {
    const row = make("tr");
    row.append(make("td", one.host), make("td", one.others), make("td", one.trainers), make("td", one.waiting ? number.format(one.waiting) : "", "n"));
    return row;
  }));
}

// A panel that is empty for good says why, and is shown for that.
function showLacking(told) {
  for (const place of document.querySelectorAll("[data-lacking]")) {
    const why = told[place.dataset.lacking];
    place.hidden = !why;
    place.textContent = why || "";
    if (why) place.closest("section").hidden = false;
  }
}

document.addEventListener("beat", ({ detail: now }) => {
  showTimes(now.times);
  showForeseen(now.foreseen);
  showServers(now.servers);
  showHosts(now.hosts);
  showLacking(now.lacking);
});
