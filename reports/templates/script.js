for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    let copied = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// Tables: a click on a heading sorts, a field above filters. Without the script they are as they were made.
const valueOf = (cell) => {
  const text = cell.textContent.trim();
  const number = parseFloat(text.replace(/[^\d.-]+/, "").replaceAll(",", ""));
  return /\d/.test(text) && !Number.isNaN(number) ? number : text.toLowerCase();
};
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) { other.removeAttribute("aria-sort"); }
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [valueOf(row.cells[heading.cellIndex]), row]);
      rows.sort(([a], [b]) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1));
      if (falling) { rows.reverse(); }
      body.append(...rows.map(([, row]) => row));
    });
  }
  if (body.rows.length > 8) {
    const field = document.createElement("input");
    field.type = "search";
    field.className = "filter";
    field.placeholder = "Filter the rows";
    field.setAttribute("aria-label", "Filter the rows of this table");
    table.parentElement.before(field);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of body.rows) {
        row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      }
    });
  }
}

// A link to something that is folded opens it.
const unfold = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1).split("@")[0]));
  for (let each = target; each; each = each.parentElement) { if (each.tagName === "DETAILS") { each.open = true; } }
  if (target) { target.scrollIntoView(); }
};
addEventListener("hashchange", unfold);
unfold();

// Diagrams: zoom, lanes, the path of a record, and steps. data-at holds lane and step of each end.
for (const figure of document.querySelectorAll("figure.diagram")) {
  const frame = figure.querySelector(".frame");
  const [lanes, body] = [...frame.querySelectorAll("svg")];
  const size = [lanes, body].map((svg) => [svg.width.baseVal.value, svg.height.baseVal.value]);
  const items = [...body.querySelectorAll("[data-at]")].map((element) => {
    const numbers = element.dataset.at.split(" ").map(Number);
    const ends = numbers.flatMap((_, index) => (index % 2 ? [] : [[numbers[index], numbers[index + 1]]]));
    const isRecord = element.parentElement.classList.contains("record");
    return { element, ends, isRecord, isArrow: element.parentElement.classList.contains("arrows") };
  });
  const steps = [...new Set(items.flatMap((item) => item.ends.map(([, step]) => step)))].sort((a, b) => a - b);
  if (!steps.length) { continue; }
  const hidden = new Set();
  let lit = null;
  let place = -1;
  const tools = document.createElement("div");
  tools.className = "tools";
  const said = document.createElement("output");
  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.title = label;
    made.addEventListener("click", act);
    tools.append(made);
    return made;
  };
  let zoom = 1;
  const zoomTo = (wanted) => {
    zoom = Math.min(4, Math.max(0.25, wanted));
    [lanes, body].forEach((svg, index) => {
      svg.style.width = `${size[index][0] * zoom}px`;
      svg.style.height = `${size[index][1] * zoom}px`;
    });
    frame.style.setProperty("--lanes", `${size[0][0] * zoom}px`);
    frame.style.setProperty("--body", `${size[1][0] * zoom}px`);
  };
  const show = () => {
    const step = place < 0 ? null : steps[place];
    for (const { element, ends } of items) {
      const off = ends.every(([lane]) => hidden.has(lane)) || (ends.length === 2 && ends.some(([lane]) => hidden.has(lane)));
      element.classList.toggle("off", off);
      element.classList.toggle("faint", !off && lit !== null && !lit.has(element));
      element.classList.toggle("now", !off && step !== null && ends.some((end) => end[1] === step));
    }
  };
  const goTo = (wanted, isLinked = true) => {
    place = Math.min(steps.length - 1, Math.max(0, wanted));
    show();
    const here = items.filter(({ element, ends }) => ends.some((end) => end[1] === steps[place]) && element.querySelector("title"));
    said.textContent = `step ${steps[place]}: ${here.map(({ element }) => element.querySelector("title").textContent.replace(/^step \d+, /, "")).join("; ")}`;
    const box = (here[0] || items.find(({ ends }) => ends.some((end) => end[1] === steps[place]))).element.getBoundingClientRect();
    const around = frame.getBoundingClientRect();
    if (box.left < around.left + size[0][0] * zoom || box.right > around.right) {
      frame.scrollLeft += box.left - around.left - around.width / 2;
    }
    if (isLinked) { history.replaceState(null, "", `#${figure.id}@${steps[place]}`); }
  };
  const light = (first) => {
    lit = new Set([first.element]);
    const waiting = [first];
    while (waiting.length) {
      const item = waiting.pop();
      for (const other of items) {
        if (lit.has(other.element)) { continue; }
        const [from, to] = [item.ends[0], item.ends[item.ends.length - 1]];
        const [start, end] = [other.ends[0], other.ends[other.ends.length - 1]];
        const follows = String(start) === String(to) && item.isArrow;
        const leads = other.isArrow && String(end) === String(from);
        if ((follows || leads) && (other.isRecord || !other.isArrow)) {
          lit.add(other.element);
          if (other.isRecord && other.isArrow) { waiting.push(other); }
        }
      }
    }
    show();
    const title = first.element.querySelector("title");
    said.textContent = `the path of ${title ? title.textContent : first.element.textContent}`;
  };
  const clear = () => { lit = null; place = -1; said.textContent = ""; show(); };
  button("−", "Smaller", () => zoomTo(zoom / 1.25));
  button("+", "Larger", () => zoomTo(zoom * 1.25));
  button("Fit", "As wide as the page", () => zoomTo((frame.parentElement.clientWidth - 4) / (size[0][0] + size[1][0])));
  button("‹", "The step before (key ←)", () => goTo(place < 0 ? steps.length - 1 : place - 1));
  button("›", "The next step (key →)", () => goTo(place + 1));
  button("Clear", "No step, no path (key Escape)", clear);
  const choice = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "Lanes";
  choice.append(summary);
  [...lanes.querySelectorAll("text")].forEach((text, lane) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      if (box.checked) { hidden.delete(lane); } else { hidden.add(lane); }
      text.classList.toggle("off", !box.checked);
      show();
    });
    const title = text.querySelector("title");
    label.append(box, ` ${title ? title.textContent : text.textContent}`);
    choice.append(label);
  });
  tools.append(choice, said);
  frame.before(tools);
  for (const item of items) {
    if (item.isRecord && item.isArrow) { item.element.addEventListener("click", () => light(item)); }
  }
  frame.addEventListener("keydown", (event) => {
    const act = { ArrowRight: () => goTo(place + 1), ArrowLeft: () => goTo(place - 1), Home: () => goTo(0), End: () => goTo(steps.length - 1), "+": () => zoomTo(zoom * 1.25), "-": () => zoomTo(zoom / 1.25), Escape: clear }[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
  });
  const follow = () => {
    const [name, step] = decodeURIComponent(location.hash.slice(1)).split("@");
    if (name === figure.id && step !== undefined) {
      const at = steps.findIndex((each) => each >= Number(step));
      goTo(at < 0 ? steps.length - 1 : at, false);
    }
  };
  addEventListener("hashchange", follow);
  follow();
  if (place < 0 && figure.dataset.opensAt !== undefined) {
    const at = steps.findIndex((each) => each >= Number(figure.dataset.opensAt));
    goTo(at < 0 ? steps.length - 1 : at, false);
  }
}
