// The page of this node. It reads /v1/page every few seconds and changes only what differs. All text from the node goes
// through textContent: a name with markup in it is a name.
"use strict";
(() => {
  const PACE = 3000;        // From one reading to the next.
  const SLOW = 10000;       // After a failure.
  const KEEP = 100;         // Readings of CPU and memory: five minutes.
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;

  // ---- words and numbers -------------------------------------------------------------------------------------------
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  const bytes = (n) => {
    if (n == null) return "–";
    let unit = 0;
    while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit += 1; }
    return (n >= 10 || unit === 0 || n % 1 < 0.05 ? Math.round(n) : n.toFixed(1)) + units[unit];
  };
  const cores = (nanos) => {
    if (nanos == null) return "–";
    const millis = nanos / 1e6;
    if (millis >= 1000) return (millis / 1000).toFixed(2) + " cores";
    return (millis > 0 && millis < 1 ? "<1" : Math.round(millis)) + "m";
  };
  const percent = (part, whole) => (whole > 0 ? Math.round((part * 100) / whole) + " %" : "–");
  const age = (s) => {
    if (s == null) return "–";
    if (s < 120) return s + "s";
    if (s < 10800) return Math.floor(s / 60) + "m";
    if (s < 172800) return Math.floor(s / 3600) + "h";
    return Math.floor(s / 86400) + "d";
  };
  const took = (s) => (s < 0.0005 ? "" : s < 1 ? Math.round(s * 1000) + " ms" : s < 60 ? s.toFixed(1) + " s" : age(Math.round(s)));
  const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
  const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");

  // ---- small tools for the document ----------------------------------------------------------------------------------
  const make = (name, className, text) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text != null) node.textContent = text;
    return node;
  };
  const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const name = (node, text) => { if (node.className !== text) node.className = text; };
  const mark = (node, key, value) => { if (node.getAttribute(key) !== value) node.setAttribute(key, value); };
  const show = (node, shown) => { if (node.hidden === shown) node.hidden = !shown; };

  // Makes the children of `parent` those of `items`, by key; `fill(node, item)` brings one up to date.
  const keyed = (parent, items, key, build, fill) => {
    const old = parent.kids || (parent.kids = new Map());
    const now = new Map();
    let place = parent.firstElementChild;
    for (const item of items) {
      const id = key(item);
      if (now.has(id)) continue;
      const node = old.get(id) || build(item);
      now.set(id, node);
      fill(node, item);
      if (node === place) place = place.nextElementSibling;
      else parent.insertBefore(node, place);
    }
    for (const [id, node] of old) if (!now.has(id)) node.remove();
    parent.kids = now;
  };

  // ---- charts ------------------------------------------------------------------------------------------------------
  const path = (className) => { const node = document.createElementNS(SVG, "path"); node.setAttribute("class", className); return node; };
  // A line with its area in a box of 100 by 40; `level` is a dashed line.
  const chart = (svg, values, most, level) => {
    if (!svg.parts) {
      svg.parts = { fill: path("fill"), line: path("line"), level: document.createElementNS(SVG, "line") };
      svg.append(svg.parts.fill, svg.parts.line, svg.parts.level);
    }
    const { fill, line, level: ruler } = svg.parts;
    const top = Math.max(most, 1e-9);
    let text = "", first = null, last = null;
    values.forEach((value, index) => {
      if (value == null) return;
      const x = (100 * (index + KEEP - values.length)) / (KEEP - 1), y = 39 - 37 * Math.min(1, value / top);
      text += (first == null ? "M" : "L") + x.toFixed(2) + " " + y.toFixed(2);
      if (first == null) first = x;
      last = x;
    });
    const point = first != null && first === last;
    mark(line, "d", point ? text + "h0.6" : text);
    mark(fill, "d", first == null || point ? "" : text + "L" + last.toFixed(2) + " 40L" + first.toFixed(2) + " 40Z");
    const y = level == null ? -9 : 39 - 37 * Math.min(1, level / top);
    for (const [key, value] of [["x1", 0], ["x2", 100], ["y1", y], ["y2", y]]) mark(ruler, key, String(value));
    ruler.style.display = level == null ? "none" : "";
  };
  const highest = (values) => values.reduce((most, value) => Math.max(most, value || 0), 0);

  // Places moments on a line on which long silences are short: steps of milliseconds and of hours fit on one.
  const scale = (moments) => {
    const points = [...new Set(moments)].sort((a, b) => a - b);
    const places = new Map();
    let sum = 0;
    points.forEach((at, index) => {
      if (index > 0) sum += Math.log2(1 + (at - points[index - 1]) / 40);
      places.set(at, sum);
    });
    return (at) => (sum > 0 ? places.get(at) / sum : 0);
  };
  const bars = (parent, steps, wide) => {
    const place = scale(steps.flatMap((step) => [step.at - step.took, step.at]));
    keyed(parent, steps.map((step, index) => ({ step, index })), (item) => item.index, () => make("i"), (node, { step }) => {
      const from = place(step.at - step.took), to = place(step.at);
      name(node, (step.took > 0 ? "" : "point") + (step.bad ? " bad" : ""));
      node.style.left = "calc(" + (from * 100).toFixed(2) + "% - " + (from * 3).toFixed(1) + "px)";
      node.style.width = step.took > 0 ? Math.max(0, (to - from) * 100).toFixed(2) + "%" : wide ? "3px" : "";
    });
  };

  // ---- what the page knows ------------------------------------------------------------------------------------------
  const history = new Map();  // by pod: { cpu, memory }, the newest last
  const nodeHistory = { cpu: [], memory: [] };
  let data = null, chosen = null, story = null, query = "", group = "all", order = "name", upwards = true;
  let paused = false, timer = 0, lostSince = 0;

  const remember = (ring, cpu, memory) => {
    ring.cpu.push(cpu ?? null); ring.memory.push(memory ?? null);
    if (ring.cpu.length > KEEP) { ring.cpu.shift(); ring.memory.shift(); }
  };
  const key = (pod) => pod.uid || "file:" + pod.name;
  const title = (pod) => (pod.namespace ? pod.namespace + "/" + pod.name : pod.name);
  const tone = (pod) => {
    if (pod.state === "Succeeded" || pod.state === "Terminated") return "rest";
    if (["Failed", "Rejected", "Invalid"].includes(pod.state)) return "bad";
    if (pod.state === "Running" && pod.ready === pod.total && !pod.waiting) return "good";
    return /BackOff|Err|Failed|OOM|Error/.test(pod.reason || "") ? "bad" : "wait";
  };
  const groups = [
    ["all", "All", () => true],
    ["good", "Running", (pod) => tone(pod) === "good"],
    ["wait", "Waiting", (pod) => tone(pod) === "wait"],
    ["bad", "In trouble", (pod) => tone(pod) === "bad"],
    ["rest", "Ended", (pod) => tone(pod) === "rest"],
  ];
  const waitsFor = (waiting) =>
    waiting.what + (waiting.until_in_seconds != null ? ", next try in " + age(waiting.until_in_seconds) : "");

  // ---- the node -----------------------------------------------------------------------------------------------------
  const parts = (bar, shares) => {
    keyed(bar, shares.filter((share) => share.size > 0), (share) => share.className, (share) => make("i", share.className),
      (node, share) => { node.style[share.tick ? "left" : "width"] = (Math.min(1, share.size) * 100).toFixed(2) + "%"; });
  };
  const gauge = (id, big, of, small) => {
    const card = $(id);
    say(card.querySelector(".big b"), big); say(card.querySelector(".big span"), of); say(card.querySelector(".small"), small);
    return card;
  };
  const holds = (card, items) =>
    keyed(card.querySelector(".holds"), items, (item) => item[0], (item) => make("li", item[0]), (node, item) => say(node, item[1]));

  const drawNode = () => {
    const { status, node } = data;
    say($("node"), status.node);
    document.title = status.node + " · rubelet";
    const facts = [status.kubelet_version.replace(/\+.*/, ""), "up " + age(status.uptime_seconds)];
    const bad = [];
    (status.runtime.up ? facts : bad).push(status.runtime.name + " " + status.runtime.version + (status.runtime.up ? "" : " does not answer"));
    const server = status.api_server;
    if (!server) facts.push("no API server");
    else if (server.reachable === false) bad.push("API server unreachable for " + age(server.since_seconds));
    else facts.push(server.reachable ? "API server reachable" : "API server not asked yet");
    if (status.shutting_down) bad.push("the machine is going down");
    const line = $("facts");
    const text = facts.join(" · ");
    if (line.dataset.text !== text + "|" + bad) {
      line.dataset.text = text + "|" + bad;
      line.replaceChildren(text, ...bad.flatMap((what) => [" · ", make("span", "bad", what)]));
    }
    const notices = [];
    if (!status.runtime.up) notices.push("The container runtime does not answer, all pods wait for it" + (status.runtime.problem ? ": " + status.runtime.problem : "") + ".");
    else if (status.runtime.network_problem) notices.push("The pod network is not ready, new pods wait for it: " + status.runtime.network_problem + ".");
    if (status.job_panics > 0) notices.push("Internal errors since the start: " + status.job_panics + ". The log has them.");
    if (!lostSince) { say($("notice"), notices.join(" ")); show($("notice"), notices.length > 0); }

    const resource = (wanted) => node.resources.find((one) => one.name === wanted) || { capacity: 0, requested: 0, allocatable: 0, used: null };
    const cpu = resource("cpu"), memory = resource("memory"), pods = resource("pods");
    const unmeasured = node.usage_problem || "not measured yet";
    const limit = (signal) => node.thresholds.find((one) => one.signal === signal && one.hard);

    let card = gauge("g-cpu", cores(data.used.cpu_nanocores), "of " + plural(cpu.capacity / 1000, "core"),
      data.used.cpu_nanocores == null ? unmeasured : percent(cpu.requested, cpu.allocatable) + " requested by pods");
    chart(card.querySelector(".area"), nodeHistory.cpu, cpu.capacity * 1e6);
    parts(card.querySelector(".bar"), [
      { className: "use", size: (data.used.cpu_nanocores || 0) / (cpu.capacity * 1e6) }, { className: "tick", tick: true, size: cpu.requested / cpu.capacity }]);

    const floor = limit("memory.available");
    card = gauge("g-memory", bytes(data.used.memory_bytes), "of " + bytes(memory.capacity),
      data.used.memory_bytes == null ? unmeasured : percent(memory.requested, memory.allocatable) + " requested by pods");
    chart(card.querySelector(".area"), nodeHistory.memory, memory.capacity, floor && floor.threshold != null ? memory.capacity - floor.threshold : null);
    parts(card.querySelector(".bar"), [
      { className: "use", size: (data.used.memory_bytes || 0) / memory.capacity }, { className: "tick", tick: true, size: memory.requested / memory.capacity }]);

    const disk = node.disks[0], use = node.disk_use;
    if (disk) {
      card = gauge("g-disk", bytes(disk.used), "of " + bytes(disk.capacity), bytes(disk.available) + " free on " + disk.name);
      const known = use ? [["images", use.images], ["layers", use.layers], ["volumes", use.volumes], ["logs", use.logs]] : [];
      const sizes = known.filter(([, size]) => size != null);
      holds(card, sizes.map(([what, size]) => ["h-" + what, what + " " + bytes(size)]));
      const named = sizes.reduce((sum, [, size]) => sum + size, 0);
      parts(card.querySelector(".bar"), [...sizes.map(([what, size]) => ({ className: "h-" + what, size: size / disk.capacity })),
        { className: "h-other", size: Math.max(0, disk.used - named) / disk.capacity }]);
    } else gauge("g-disk", "–", "", unmeasured);

    const counted = groups.slice(1).map(([id, label, is]) => [id, label, data.pods.filter(is).length]);
    card = gauge("g-pods", String(data.pods.length), "of " + (pods.capacity || "–"), pods.capacity ? "room for " + Math.max(0, pods.capacity - pods.requested) + " more" : "");
    holds(card, counted.filter(([, , n]) => n > 0).map(([id, label, n]) => ["t-" + id, n + " " + label.toLowerCase()]));
    const whole = Math.max(pods.capacity, data.pods.length, 1);
    parts(card.querySelector(".bar"), counted.map(([id, , n]) => ({ className: "t-" + id, size: n / whole })));

    keyed($("limits"), node.thresholds.length ? node.thresholds : [null], (one) => (one ? one.signal + one.hard : "none"), (one) => {
      const item = make("li");
      if (one) item.append(make("span", "name"), make("div", "bar"), make("span", "left"));
      return item;
    }, (item, one) => {
      if (!one) { say(item, "None are configured."); name(item, "calm"); return; }
      const [label, bar, left] = item.children;
      const tones = { far: "t-good", near: "t-wait", crossed: "t-bad", unknown: "t-rest" };
      name(item, tones[one.state]);
      say(label, one.signal);
      const amount = one.unit === "bytes" ? bytes : (n) => Math.round(n).toLocaleString("en");
      const text = one.available == null ? "below " + one.configured + " · not measured"
        : one.state === "crossed" ? amount(one.available) + " left, below " + one.configured
        : amount(one.available - one.threshold) + " until " + one.configured;
      const taken = one.taken_per_minute ?? 0;
      const trend = Math.abs(taken) <= (one.capacity ?? 0) / 1000 ? "" : " · " + (taken > 0 ? "−" : "+") + amount(Math.abs(taken)) + " a minute";
      say(left, text + trend + (one.hard ? "" : " (soft)"));
      const used = one.capacity ? (one.capacity - one.available) / (one.capacity - one.threshold || 1) : 0;
      parts(bar, [{ className: "use", size: used }]);
      mark(bar, "role", "meter"); mark(bar, "aria-label", one.signal); mark(bar, "aria-valuetext", text);
      mark(bar, "aria-valuemin", "0"); mark(bar, "aria-valuemax", "100"); mark(bar, "aria-valuenow", String(Math.round(Math.min(1, used) * 100)));
      label.title = one.signal + (one.grace ? ", for " + one.grace : "");
    });
  };

  // Pods that wait for the same are one line.
  const drawWaits = () => {
    const by = new Map();
    for (const pod of data.pods) {
      if (!pod.waiting) continue;
      const same = by.get(pod.waiting.what);
      if (same) { same.pods.push(pod); same.since = Math.max(same.since ?? -1, pod.waiting.since_seconds ?? -1); }
      else by.set(pod.waiting.what, { what: pod.waiting.what, pods: [pod], waiting: pod.waiting, since: pod.waiting.since_seconds });
    }
    const lines = [...by.values()].sort((a, b) => (b.since ?? 0) - (a.since ?? 0));
    const more = lines.length - 6;
    const shown = more > 1 ? lines.slice(0, 6) : lines;
    if (!shown.length) shown.push({ calm: "Nothing waits." });
    else if (more > 1) shown.push({ calm: "and " + more + " more" });
    keyed($("waits"), shown, (line) => line.calm ? "calm" : line.what, (line) => {
      const item = make("li");
      if (!line.calm) {
        const button = make("button");
        button.type = "button";
        button.addEventListener("click", () => { if (item.line.pods.length === 1) open(key(item.line.pods[0])); else search(item.line.pods[0].reason || ""); });
        item.append(button, make("span", "what"), make("time"));
      }
      return item;
    }, (item, line) => {
      if (line.calm) { say(item, line.calm); name(item, "calm"); return; }
      item.line = line;
      const [button, what, since] = item.children;
      say(button, line.pods.length === 1 ? line.pods[0].name : plural(line.pods.length, "pod"));
      button.title = line.pods.slice(0, 20).map(title).join("\n");
      say(what, waitsFor(line.waiting)); what.title = line.what;
      say(since, line.since != null && line.since >= 0 ? age(line.since) : "");
    });
  };

  // ---- the list -----------------------------------------------------------------------------------------------------
  const visible = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) { visible.add(target); if (target.pod) charts(target); } else visible.delete(target);
    }
  }, { rootMargin: "200px" });

  const buildRow = () => {
    const item = make("li"), row = make("button", "row");
    row.type = "button";
    mark(row, "aria-controls", "detail");
    const use = (kind) => {
      const cell = make("span", "use " + kind), svg = document.createElementNS(SVG, "svg");
      mark(svg, "viewBox", "0 0 100 40"); mark(svg, "preserveAspectRatio", "none"); mark(svg, "aria-hidden", "true"); mark(svg, "class", "area");
      cell.append(svg, make("span"));
      return cell;
    };
    const label = make("span", "name"), state = make("span", "state"), strip = make("span", "strip");
    label.append(make("b"), make("small")); state.append(make("span"), make("small"));
    mark(strip, "aria-hidden", "true");
    row.append(label, state, strip, use("cpu"), use("mem"), make("span", "restarts"), make("span", "age"));
    row.addEventListener("click", () => open(chosen === key(item.pod) ? null : key(item.pod)));
    item.append(row);
    watcher.observe(item);
    return item;
  };
  const charts = (item) => {
    const past = history.get(key(item.pod));
    const [, , strip, cpu, memory] = item.firstChild.children;
    bars(strip, item.pod.bars);
    chart(cpu.firstChild, past.cpu, Math.max(highest(past.cpu) * 1.15, 2e7));
    chart(memory.firstChild, past.memory, Math.max(highest(past.memory) * 1.15, 1 << 20));
  };
  const fillRow = (item, pod) => {
    item.pod = pod;
    const row = item.firstChild;
    const [label, state, , cpu, memory, restarts, since] = row.children;
    say(label.firstChild, pod.name); say(label.lastChild, pod.namespace || "manifest");
    label.title = title(pod);
    name(state, "state t-" + tone(pod));
    const ready = pod.state === "Running" ? (pod.ready === pod.total ? "" : " " + pod.ready + "/" + pod.total) : "";
    say(state.firstChild, pod.state + ready);
    const why = pod.waiting ? "waits for " + pod.waiting.what : pod.reason || pod.message || "";
    say(state.lastChild, why); state.title = why;
    say(cpu.lastChild, cores(pod.cpu_nanocores)); say(memory.lastChild, bytes(pod.memory_bytes));
    say(restarts, String(pod.restarts)); name(restarts, "restarts" + (pod.restarts > 2 ? " many" : ""));
    say(since, age(pod.age_seconds));
    mark(row, "aria-expanded", String(chosen === key(pod)));
    mark(row, "aria-label", [title(pod), pod.state + ready, why, "CPU " + cores(pod.cpu_nanocores), "memory " + bytes(pod.memory_bytes),
      plural(pod.restarts, "restart"), "age " + age(pod.age_seconds)].filter(Boolean).join(", "));
    if (visible.has(item)) charts(item);
  };
  const ranks = { bad: 0, wait: 1, good: 2, rest: 3 };
  const orders = {
    name: () => 0,
    state: (a, b) => ranks[tone(a)] - ranks[tone(b)] || (a.state < b.state ? -1 : a.state > b.state ? 1 : 0),
    cpu: (a, b) => (b.cpu_nanocores ?? -1) - (a.cpu_nanocores ?? -1),
    memory: (a, b) => (b.memory_bytes ?? -1) - (a.memory_bytes ?? -1),
    restarts: (a, b) => b.restarts - a.restarts,
    age: (a, b) => (a.age_seconds ?? 0) - (b.age_seconds ?? 0),
  };
  const drawList = () => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const is = groups.find(([id]) => id === group)[2];
    const fits = (pod) => {
      const text = [title(pod), pod.state, pod.reason, pod.waiting && pod.waiting.what].join(" ").toLowerCase();
      return is(pod) && words.every((word) => text.includes(word));
    };
    const found = data.pods.filter(fits);
    const compare = orders[order];
    found.forEach((pod, index) => { pod.place = index; });
    found.sort((a, b) => compare(a, b) || a.place - b.place);
    if (!upwards) found.reverse();
    keyed($("list"), found, key, buildRow, fillRow);
    show($("none"), found.length === 0);
    say($("none"), data.pods.length === 0 ? "No pods on this node." : "No pod fits.");
    keyed($("chips"), groups, ([id]) => id, ([id]) => {
      const button = make("button");
      button.type = "button";
      button.append(make("span"), make("b"));
      button.addEventListener("click", () => { group = id; drawList(); });
      return button;
    }, (button, [id, label, isIn]) => {
      const count = data.pods.filter(isIn).length;
      say(button.firstChild, label); say(button.lastChild, String(count));
      mark(button, "aria-pressed", String(group === id));
      show(button, id === "all" || count > 0 || group === id);
    });
  };

  // ---- one pod ------------------------------------------------------------------------------------------------------
  const open = (id, quiet) => {
    const before = chosen;
    chosen = id; story = null;
    document.body.classList.toggle("open", Boolean(id));
    show($("detail"), Boolean(id));
    for (const item of $("list").children) if (item.pod) mark(item.firstChild, "aria-expanded", String(chosen === key(item.pod)));
    const pod = data && data.pods.find((one) => key(one) === id);
    window.history.replaceState(null, "", pod ? "#" + encodeURIComponent(title(pod)) : location.pathname);
    if (id) { drawDetail(); tell(); if (!quiet) $("detail").focus({ preventScroll: true }); $("detail").scrollTop = 0; }
    else if (before) {
      const row = [...$("list").children].find((item) => item.pod && key(item.pod) === before);
      if (row) row.firstChild.focus();
    }
  };
  const tell = async () => {
    const id = chosen, pod = data && data.pods.find((one) => key(one) === id);
    if (!pod) return;
    try {
      const answer = await ask("/v1/pods/" + encodeURIComponent(pod.uid || pod.name));
      if (chosen === id) { story = answer; drawDetail(); }
    } catch { /* The next reading tries again. */ }
  };
  const drawDetail = () => {
    const pod = data.pods.find((one) => key(one) === chosen);
    if (!pod) {
      say($("d-state"), "This pod is gone from the node.");
      show($("d-wait"), false);
      return;
    }
    say($("d-name"), title(pod));
    const state = $("d-state");
    if (!state.firstElementChild) state.replaceChildren(make("span", "state"), make("span"));
    name(state.firstElementChild, "state t-" + tone(pod)); say(state.firstElementChild, pod.state);
    const more = [pod.ready + " of " + pod.total + " ready", "here for " + age(pod.age_seconds)];
    if (pod.restarts) more.push(plural(pod.restarts, "restart"));
    if (pod.ip) more.push(pod.ip);
    say(state.lastElementChild, " · " + more.join(" · "));
    const wait = $("d-wait"), why = pod.waiting ? "Waits for " + waitsFor(pod.waiting) + (pod.waiting.since_seconds != null ? " · since " + age(pod.waiting.since_seconds) : "")
      : pod.message || (tone(pod) === "good" ? "" : pod.reason || "");
    say(wait, why); show(wait, Boolean(why)); name(wait, "d-wait t-" + (tone(pod) === "good" ? "rest" : tone(pod)));
    const past = history.get(chosen) || { cpu: [], memory: [] };
    chart($("d-cpu-chart"), past.cpu, Math.max(highest(past.cpu) * 1.15, 2e7)); say($("d-cpu"), cores(pod.cpu_nanocores));
    chart($("d-memory-chart"), past.memory, Math.max(highest(past.memory) * 1.15, 1 << 20)); say($("d-memory"), bytes(pod.memory_bytes));
    show(document.querySelector(".d-charts"), [...past.cpu, ...past.memory].some((value) => value != null));
    if (story) drawStory();
    else for (const list of ["d-steps", "d-containers", "d-facts"]) keyed($(list), [], (x) => x, () => null, () => {});
  };
  const drawStory = () => {
    const steps = story.timeline.map((step, index) => ({ ...step, index, end: Date.parse(step.at), took: Math.round((step.took_seconds || 0) * 1000) }));
    const place = scale(steps.flatMap((step) => [step.end - step.took, step.end]));
    keyed($("d-steps"), steps, (step) => step.what + step.bad, () => {
      const item = make("li"), track = make("div", "track");
      mark(track, "aria-hidden", "true");
      track.append(make("i"));
      item.append(make("time"), make("span", "what"), make("span", "took"), track);
      return item;
    }, (item, step) => {
      const [at, what, length, track] = item.children, bar = track.firstChild;
      name(item, step.bad ? "bad" : "");
      say(at, clock(step.end)); mark(at, "datetime", step.at); at.title = new Date(step.end).toLocaleString();
      say(what, step.what + (step.times > 1 ? " (" + step.times + " times)" : ""));
      say(length, took(step.took_seconds || 0));
      const from = place(step.end - step.took), to = place(step.end);
      name(bar, step.bad ? "bad" : "");
      bar.style.left = "calc(" + (from * 100).toFixed(2) + "% - " + (from * 4).toFixed(1) + "px)";
      bar.style.width = "max(4px, " + ((to - from) * 100).toFixed(2) + "%)";
    });
    say($("d-axis"), steps.length ? "Silences between steps are drawn shorter than they were." + (story.steps_dropped ? " " + plural(story.steps_dropped, "older step") + " dropped." : "") : "No steps yet.");
    keyed($("d-containers"), story.containers, (one) => one.role + one.name, () => {
      const item = make("li"), head = make("p");
      head.append(make("b"), make("span"));
      item.append(head, make("div"));
      return item;
    }, (item, one) => {
      const [head, lines] = item.children;
      say(head.firstChild, one.name + (one.role === "regular" ? "" : " (" + one.role + ")"));
      say(head.lastChild, " · " + one.state + (one.reason ? ", " + one.reason : "") + (one.exit_code != null ? ", exit code " + one.exit_code : "")
        + (one.since_seconds != null ? " for " + age(one.since_seconds) : "") + (one.restarts ? " · " + plural(one.restarts, "restart") : ""));
      const texts = [["", one.image]];
      if (one.message) texts.push(["bad", one.message]);
      if (one.last_end) texts.push(["", "last ended " + (one.last_end.seconds_ago != null ? age(one.last_end.seconds_ago) + " ago " : "") + "with exit code " + one.last_end.exit_code + (one.last_end.reason ? " (" + one.last_end.reason + ")" : "")]);
      for (const probe of one.failing_probes) texts.push(["bad", probe.kind + " probe failed" + (probe.times > 1 ? " " + probe.times + " times in a row" : "") + ": " + probe.said]);
      for (const probe of one.probes || []) texts.push(["", probe.kind + " probe: " + probe.settings + (probe.history && probe.history.length ? " · " + probe.history[probe.history.length - 1] : "")]);
      if (one.next_start_in_seconds != null) texts.push(["", "next start in " + age(one.next_start_in_seconds)]);
      keyed(lines, texts.map((text, index) => [index, ...text]), (text) => text[0], () => make("p"), (node, text) => { name(node, text[1]); say(node, text[2]); });
    });
    const facts = [["UID", story.uid], ["Source", story.source], ["QoS", story.qos], ["Sandbox", story.sandbox_id], ["Cgroup", story.cgroup],
      ["Finalizers", (story.finalizers || []).join(", ")]];
    for (const one of story.containers) { facts.push(["ID " + one.name, one.id]); facts.push(["Log " + one.name, one.log_path]); }
    keyed($("d-facts"), facts.filter((fact) => fact[1]).flatMap(([label, text]) => [["dt", label, label], ["dd", label, text]]),
      (fact) => fact[0] + fact[1], (fact) => make(fact[0]), (node, fact) => say(node, fact[2]));
  };

  // ---- reading ------------------------------------------------------------------------------------------------------
  const ask = async (where) => {
    const answer = await fetch(where, { credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(9000) });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || "status " + answer.status);
    return answer.json();
  };
  const read = async () => {
    clearTimeout(timer);
    try {
      const fresh = await ask("/v1/page");
      data = fresh;
      lostSince = 0;
      remember(nodeHistory, data.used.cpu_nanocores, data.used.memory_bytes);
      const here = new Set();
      for (const pod of data.pods) {
        const id = key(pod);
        here.add(id);
        if (!history.has(id)) history.set(id, { cpu: [], memory: [] });
        remember(history.get(id), pod.cpu_nanocores, pod.memory_bytes);
      }
      for (const id of history.keys()) if (!here.has(id)) history.delete(id);
      drawNode(); drawWaits(); drawList();
      if (root.dataset.state === "loading" && location.hash.length > 1) fromHash();
      if (chosen) { drawDetail(); tell(); }
      root.dataset.state = paused ? "paused" : "live";
      say($("live"), paused ? "Paused" : "Live");
    } catch (err) {
      lostSince = lostSince || Date.now();
      root.dataset.state = "lost";
      say($("live"), "No answer");
      say($("notice"), "rubelet does not answer (" + err.message + "). What is shown is from " + age(Math.round((Date.now() - lostSince) / 1000)) + " ago or older.");
      show($("notice"), true);
    }
    again();
  };
  const again = () => {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(read, lostSince ? SLOW : PACE);
  };
  const fromHash = () => {
    let wanted = "";
    try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    const pod = data.pods.find((one) => title(one) === wanted);
    if (pod) open(key(pod), true);
  };
  const pause = () => {
    paused = !paused;
    mark($("pause"), "aria-pressed", String(paused));
    say($("pause"), paused ? "Go on" : "Pause");
    root.dataset.state = paused ? "paused" : "live";
    say($("live"), paused ? "Paused" : "Live");
    if (paused) clearTimeout(timer); else read();
  };
  const search = (text) => { query = text; $("find").value = text; if (data) drawList(); $("find").focus(); };

  // ---- keys ---------------------------------------------------------------------------------------------------------
  const move = (by) => {
    const rows = [...$("list").children].map((item) => item.firstChild);
    const at = rows.indexOf(document.activeElement);
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); if (chosen) open(key(next.parentElement.pod), true); next.focus(); }
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === $("find");
    if (event.key === "Escape") {
      if (chosen) open(null); else if (typing) { search(""); $("find").blur(); }
    } else if (typing) {
      if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); move(1); }
    } else if (event.key === "/") { event.preventDefault(); $("find").focus(); $("find").select(); }
    else if (event.key === "p") pause();
    else if ((event.key === "ArrowDown" || event.key === "j") && !$("detail").contains(event.target)) { event.preventDefault(); move(1); }
    else if ((event.key === "ArrowUp" || event.key === "k") && !$("detail").contains(event.target)) { event.preventDefault(); move(-1); }
  });
  $("find").addEventListener("input", () => { query = $("find").value; if (data) drawList(); });
  $("pause").addEventListener("click", pause);
  $("d-close").addEventListener("click", () => open(null));
  $("heads").addEventListener("click", (event) => {
    const wanted = event.target.dataset && event.target.dataset.sort;
    if (!wanted) return;
    upwards = wanted === order ? !upwards : true;
    order = wanted;
    for (const button of $("heads").querySelectorAll("button")) {
      mark(button, "aria-pressed", String(button.dataset.sort === order));
      button.toggleAttribute("data-up", button.dataset.sort === order && !upwards);
    }
    if (data) drawList();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else if (!paused) read(); });
  window.addEventListener("hashchange", () => { if (data) fromHash(); });
  read();
})();
