"use strict";
// Computes what a plan costs and brings from the curve in the page, as auucmax target does, and
// shows it at the place of the slider; computes no statistics. An element says by data-list which
// numbers of the plan it shows (two of them are an interval) and by data-form how; data-say is a
// sentence with such pairs in braces, or with places of texts, as {names.gain}: no name stands in
// the sentence itself, where its own braces would be taken for such; data-when says with which inputs an element is shown. All
// that is written is text (textContent, aria-valuetext), or lines and labels of the curve.
(function () {
  const summary = JSON.parse(document.getElementById("numbers").textContent);
  const given = summary.plan, curve = summary.curve, unit = summary.unit;
  const rule = JSON.parse(document.getElementById("rule").textContent);
  const share = document.getElementById("share"), budget = document.getElementById("budget");
  const said = document.getElementById("said"), few = document.getElementById("few");
  const sure = summary.certified_shares, last = given.share.length - 1;
  const ofArms = Boolean(curve.singles), ends = ["", "_lower", "_upper"];
  const places = given.share.map(function (_, j) { return j; });
  let plan = given, timer = 0;

  // Whole people, halves to even, as Python rounds.
  function rint(x) {
    const whole = Math.round(x);
    return whole - x === 0.5 && whole % 2 ? whole - 1 : whole;
  }
  function digitsFor(error) {
    if (!(error > 0)) return 2;
    return Math.min(Math.max(1 - Math.floor(Math.log10(error)), 0), 6);
  }
  function scaled(list, factor) {
    const known = factor !== null;
    return list.map(function (one) { return known && one !== null ? one * factor : null; });
  }
  function less(list, costs) {
    return list.map(function (one, j) {
      return one === null || costs[j] === null ? null : one - costs[j];
    });
  }
  // The number in a field; what it was before if it holds none, null if it is empty.
  function number(id, before, least) {
    const field = document.getElementById(id);
    if (!field) return before;
    const value = Number(field.value), wrong = !(value >= least) || field.validity.badInput;
    const empty = field.value === "" && !field.required && !field.validity.badInput;
    field.setAttribute("aria-invalid", String(wrong && !empty));
    return empty ? null : wrong || value === Infinity ? before : value;
  }
  function planned() {
    const currency = document.getElementById("currency");
    const n = Math.floor(number("cohort", plan.cohort, 1));
    const value = number("value", plan.value_per_outcome, 0);
    const cost = number("cost-one", plan.cost_per_person, 0);
    const found = Object.assign({}, given, { cohort: n, value_per_outcome: value });
    found.currency = currency ? currency.value.trim() : given.currency;
    const curves = [curve.uplift, curve.lower, curve.upper];
    ends.forEach(function (end, k) { found["rate" + end] = scaled(curves[k], unit.scale); });
    if (ofArms) {
      const more = n / given.cohort;
      ["cost", "spent", "treated"].forEach(function (name) {
        found[name] = scaled(given[name], more);
      });
      found.people = given.people.map(function (list) { return scaled(list, more); });
      ends.forEach(function (end, k) { found["gain" + end] = scaled(curves[k], n); });
      found.has_profit = value !== null && !given.by_people;
    } else {
      found.cost_per_person = cost;
      found.people = given.share.map(function (q) { return rint(q * n); });
      ends.forEach(function (end, k) {
        found["gain" + end] = found.people.map(function (m, j) {
          if (m === 0) return 0;
          return curves[k][j] === null ? null : m / given.share[j] * curves[k][j];
        });
      });
      found.cost = scaled(found.people, cost);
      found.spent = found.cost;
      found.has_profit = cost !== null && value !== null;
    }
    ends.forEach(function (end) {
      found["profit" + end] = less(scaled(found["gain" + end], value), found.spent);
    });
    found.digits = { gain: digitsFor(given.error * n), money: given.digits.money };
    if (!ofArms) found.digits.money = Math.max(cost, value * given.error * n) >= 20 ? 0 : 2;
    peaks(found);
    return found;
  }
  // The shares of highest profit, of its highest lower end, and beyond which there is a loss.
  function peaks(found) {
    const known = places.filter(function (j) { return j === 0 || curve.reliable[j]; });
    function highest(list) {
      return known.reduce(function (best, j) { return list[j] > list[best] ? j : best; }, 0);
    }
    const gains = places.filter(function (j) { return found.profit[j] > 0; });
    const most = gains.length ? gains[gains.length - 1] : last;
    found.best = found.has_profit ? highest(found.profit) : null;
    found.cautious = found.has_profit ? highest(found.profit_lower) : null;
    found.even = found.has_profit && most < last ? most : null;
  }

  function at(list, place) {
    const left = Math.min(Math.floor(place), last - 1), part = place - left;
    if (part === 0 || part === 1) return list[left + part];
    if (list[left] === null || list[left + 1] === null) return null;
    return list[left] + (list[left + 1] - list[left]) * part;
  }
  function text(value, digits) {
    const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    const shown = Math.abs(value).toLocaleString("en-US", form);
    return (value < 0 && Number(Math.abs(value).toFixed(digits)) > 0 ? "\u2212" : "") + shown;
  }
  const forms = {
    whole: function (value) { return text(value, 0); },
    gain: function (value) { return text(value, plan.digits.gain); },
    rate: function (value) { return text(value, unit.digits); },
    signed: function (value) { return (value > 0 ? "+" : "") + text(value, unit.digits); },
    risk: function (value) { return text(value, 4); },
    money: function (value) {
      return text(value, plan.digits.money) + (plan.currency ? " " + plan.currency : "");
    },
    percent: function (value) {
      const whole = Math.abs(100 * value - Math.round(100 * value)) < 1e-9;
      return text(100 * value, whole ? 0 : 1) + "%";
    },
  };
  function inside(whole, path) {
    return path.split(".").reduce(function (one, part) { return one[part]; }, whole);
  }
  function found(names, form, place) {
    const values = names.map(function (name) {
      const list = inside(plan, name);  // with a point: the list of one arm
      return Array.isArray(list) ? at(list, place) : list;
    });
    if (values.length === 2) {
      if (values[0] === null) return "unknown: too few rows";  // after the word interval
      return forms[form](values[0]) + " to " + forms[form](values[1]);
    }
    return values[0] === null ? "unknown" : forms[form](values[0]);
  }
  function spoken(sentence, place) {
    return sentence.replace(/\{([^}]*)\}/g, function (_, words) {
      const names = words.split(" "), form = names.pop();
      return names.length ? found(names, form, place) : inside(summary, form);
    });
  }
  // What is guaranteed per person of all above the cut of this share; null if there is no such cut.
  function certified(place) {
    if (!sure || place === 0) return null;
    const near = sure.share.findIndex(function (q) {
      return Math.abs(q - place / last) <= rule.same_cut;
    });
    if (near < 0) return null;
    const gain = sure.gain_lower[near], cost = plan.cost_per_person * sure.share_upper[near];
    return { gain: gain, profit: plan.value_per_outcome * gain - cost };
  }
  // A text with words for the names in braces; each name stands in it once.
  function filled(sentence, words) {
    return sentence.replace(/\{(\w+)\}/g, function (_, name) { return words[name]; });
  }
  // The rule of Python, by its own tables (auucmax.targeting.decision).
  function decided(place, own) {
    const what = plan.has_profit ? "profit" : "gain", lower = plan[what + "_lower"];
    const numbers = {
      gain_upper: at(plan.gain_upper, place), lower: at(lower, place),
      profit_upper: plan.has_profit ? at(plan.profit_upper, place) : null,
      certified: own ? own[what] : null,
    };
    const first = rule.rule.find(function (entry) { return entry[2] * numbers[entry[1]] > 0; });
    const state = first ? first[0] : rule.otherwise, is_good = rule.good.includes(state);
    const known = places.filter(function (j) { return lower[j] !== null; });
    const best = known.reduce(function (b, j) { return b === null || lower[j] > lower[b] ? j : b; },
      null);
    const other = best !== null && lower[best] > 0 ? best : null;
    let lead = state;
    if (state === rule.otherwise && other === null) {
      const is_told = known.length === places.length
        || known.some(function (j) { return lower[j] < 0; });
      const is_above = plan[what].some(function (expected) { return expected > 0; });
      lead = !is_told ? "unknown" : is_above ? "nowhere" : "never";
    }
    const words = { who: rule.terms.who, along: rule.terms.along, what: what, state: state };
    words.other = other === null ? "" : spoken(rule.terms.other, other);
    words.instead = filled(rule.instead[other === null ? "nobody" : "other"], words);
    return {
      state: state, is_advice: is_good && rule.is_better,
      lead: is_good ? "" : filled(rule.leads[lead], words),
      verdict: rule.verdicts[state] || filled(rule.verdict, words),
    };
  }
  function judge(place) {
    const chip = document.getElementById("verdict"), lead = document.getElementById("lead");
    const own = certified(place), found = decided(place, own);
    chip.className = "chip " + rule.styles[found.state];
    chip.textContent = found.verdict;
    lead.textContent = found.lead;
    lead.hidden = place === 0 || found.lead === "";
    chip.hidden = place === 0;
    document.querySelectorAll("[data-advice]").forEach(function (element) {
      element.hidden = element.dataset.advice !== String(found.is_advice);
    });
    // Next to the verdict stands the number that it rests on, and no other.
    const basis = found.state === "certified" ? "certified" : "interval";
    document.querySelectorAll("[data-basis]").forEach(function (element) {
      element.hidden = element.dataset.basis !== basis;
    });
    if (basis === "interval" || ofArms) return;
    document.getElementById("least-gain").textContent = forms.rate(own.gain * unit.scale);
    document.getElementById("least-profit").textContent = forms.money(own.profit * plan.cohort);
  }
  function show(place) {
    document.querySelectorAll("[data-list]").forEach(function (element) {
      const names = element.dataset.list.split(" ");
      element.textContent = found(names, element.dataset.form, place);
    });
    [share, budget].forEach(function (slider) {
      if (slider) slider.setAttribute("aria-valuetext", spoken(slider.dataset.say, place));
    });
    few.hidden = place === 0 || curve.reliable[Math.floor(place)];
    judge(place);
    mark(place);
    command(place);
    // Spoken once the slider rests: a sentence for each step would only be noise.
    clearTimeout(timer);
    const words = plan.has_profit ? said.dataset.sayProfit : said.dataset.say;
    const lead = document.getElementById("lead"), first = lead.hidden ? "" : lead.textContent + " ";
    timer = setTimeout(function () { said.textContent = first + spoken(words, place); }, 400);
  }
  function command(place) {
    const line = document.getElementById("command");
    if (!line) return;
    const money = [["cost", plan.cost_per_person], ["value", plan.value_per_outcome]];
    line.textContent = "auucmax target MODEL NEW.csv --share " + Number((place / last).toFixed(4)) +
      money.map(function (own) { return own[1] === null ? "" : " --" + own[0] + " " + own[1]; })
        .join("") + " -o list.csv";
  }

  // The curve: profit of the cohort, or gain in the unit of the page.
  function drawn(list, spent) {
    if (!plan.has_profit) return scaled(list, unit.scale);
    return list.map(function (gain, j) {
      const money = !ofArms ? plan.cost_per_person * given.share[j] :
        (spent || curve.spent.policy)[j];
      if (gain === null || money === null) return null;
      return plan.cohort * (plan.value_per_outcome * gain - money);
    });
  }
  function simpler() {
    if (!ofArms) return summary.rivals.map(function (rival) { return drawn(rival.uplift); });
    return curve.singles.map(function (own, k) { return drawn(own, curve.spent.singles[k]); });
  }
  function ticks(low, high) {
    const raw = (high - low) / 5, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = power * [1, 2, 2.5, 5, 10].find(function (m) { return m * power >= raw * 0.999999; });
    const first = Math.ceil(low / step - 1e-9), found = [];
    for (let k = first; k <= Math.floor(high / step + 1e-9); k += 1) found.push(k * step);
    let digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    if (Math.abs(Number(step.toFixed(digits)) - step) > 1e-9 * step) digits += 1;
    return { values: found, digits: digits };
  }
  function element(parent, tag, attributes, words) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(function (own) { made.setAttribute(own[0], own[1]); });
    if (words) made.textContent = words;
    parent.append(made);
  }
  function x(d, place) { return +d.x0 + (d.x1 - d.x0) * place / last; }
  function y(d, value) { return +d.y0 + (d.y1 - d.y0) * (value - d.low) / (d.high - d.low); }
  function path(svg, name, points, end) {
    const d = points.map(function (p) { return p[0].toFixed(2) + " " + p[1].toFixed(2); });
    svg.querySelector(name).setAttribute("d", d.length ? "M" + d.join("L") + end : "");
  }
  function draw(svg) {
    const d = svg.dataset, lines = { ".model": drawn(curve.uplift), ".random": drawn(curve.random) };
    const lower = drawn(curve.lower), upper = drawn(curve.upper);
    const known = places.filter(function (j) { return j > 0 && curve.lower[j] !== null; });
    const rivals = simpler();
    if (ofArms) lines[".everybody"] = drawn(curve.everybody.gain, curve.spent.everybody);
    const all = Object.values(lines).concat(rivals, [[0]]).flat().concat(
      known.map(function (j) { return lower[j]; }), known.map(function (j) { return upper[j]; }))
      .filter(function (value) { return value !== null; });
    const low = Math.min.apply(null, all), high = Math.max.apply(null, all);
    const room = 0.04 * (high - low) || 0.5;
    d.low = low - (low < 0 || low === high ? room : 0);
    d.high = high + room;
    const group = svg.querySelector(".along-y"), found = ticks(+d.low, +d.high);
    group.replaceChildren();
    found.values.forEach(function (value) {
      const style = Math.abs(value) < 1e-12 ? "zero" : "grid", at = y(d, value);
      element(group, "line", { class: style, x1: d.x0, x2: d.x1, y1: at, y2: at });
      element(group, "text", { class: "tick", x: d.x0 - 6, y: at + 4, "text-anchor": "end" },
        text(value, found.digits));
    });
    svg.querySelector(".of-y").textContent = plan.has_profit ?
      "profit" + (plan.currency ? ", " + plan.currency : "") : "gain " + unit.per;
    function points(list, some) {
      return (some || places).filter(function (j) { return list[j] !== null; })
        .map(function (j) { return [x(d, j), y(d, list[j])]; });
    }
    Object.keys(lines).forEach(function (name) {
      path(svg, name, points(lines[name]), "");
    });
    svg.querySelectorAll("path.rival").forEach(function (one, k) {
      one.classList.add("n" + k);
      path(svg, "path.n" + k, points(rivals[k]), "");
    });
    path(svg, ".band", points(lower, known).concat(points(upper, known).reverse()), "Z");
    const marks = svg.querySelector(".marks");
    if (!marks) return;
    marks.replaceChildren();
    [["best", plan.best, 4], ["break-even", plan.even, 15]].forEach(function (own) {
      if (!own[1]) return;
      const left = x(d, own[1]), above = d.y1 - own[2];
      const anchor = own[1] < 15 ? "start" : own[1] > 85 ? "end" : "middle";
      element(marks, "line", { class: "mark", x1: left, x2: left, y1: above + 2, y2: d.y0 });
      element(marks, "text", { class: "mark", x: left, y: above, "text-anchor": anchor },
        own[0] + " " + own[1] + "%");
    });
  }
  function mark(place) {
    const here = at(drawn(curve.uplift), place);
    document.querySelectorAll("svg.figure").forEach(function (svg) {
      const d = svg.dataset, line = svg.querySelector(".marker");
      const dot = svg.querySelector(".marker-dot");
      if (!line) return;
      line.setAttribute("x1", x(d, place));
      line.setAttribute("x2", x(d, place));
      if (!dot || here === null) return;
      dot.setAttribute("cx", x(d, place));
      dot.setAttribute("cy", y(d, here));
    });
  }
  function go(place) {
    share.value = place;
    if (budget) budget.value = place * 10;
    show(place);
  }
  // Inputs have changed: everything follows.
  function renew() {
    plan = planned();
    const money = plan.has_profit, spends = plan.cost_per_person !== null;
    const shown = {
      profit: money, gain: !money, cost: ofArms ? !given.by_people : spends,
      "can spend": spends && plan.cost[last] > 0, cautious: money && plan.cautious > 0,
      worth: plan.value_per_outcome !== null,
    };
    document.querySelectorAll("[data-when]").forEach(function (element) {
      element.hidden = !shown[element.dataset.when];
    });
    [["to-best", plan.best], ["to-cautious", plan.cautious]].forEach(function (own) {
      const button = document.getElementById(own[0]);
      if (!button || own[1] === null) return;
      button.dataset.place = own[1];
      button.querySelector("b").textContent =
        ofArms ? forms.money(plan.cost[own[1]]) : own[1] + "%";
    });
    document.querySelectorAll("svg.uplift").forEach(draw);
    // Budgets along the axis are those of all people together.
    if (ofArms && !given.by_people) document.querySelectorAll("[data-at]").forEach(function (own) {
      const amount = Number((own.dataset.at * plan.cost[last]).toPrecision(4));
      own.textContent = amount.toLocaleString("en", { maximumFractionDigits: 10 });
    });
    show(budget ? Number(budget.value) / 10 : Number(share.value));
  }

  share.addEventListener("input", function () { go(Number(share.value)); });
  if (budget) {
    budget.addEventListener("input", function () {
      const place = Number(budget.value) / 10;
      share.value = Math.round(place);
      show(place);
    });
  }
  document.querySelectorAll("button[data-place]").forEach(function (button) {
    button.addEventListener("click", function () { go(Number(button.dataset.place)); });
  });
  document.querySelectorAll(".inputs input").forEach(function (field) {
    field.addEventListener("input", renew);
  });

  // Pointing at the curve tells its values there; a click or a tap moves the slider to it.
  const tip = document.getElementById("tip");
  document.querySelectorAll("svg.uplift").forEach(function (svg) {
    function under(event) {
      const box = svg.getBoundingClientRect(), d = svg.dataset;
      const wide = svg.viewBox.baseVal.width, left = (event.clientX - box.left) / box.width * wide;
      return Math.min(Math.max(Math.round((left - d.x0) / (d.x1 - d.x0) * last), 0), last);
    }
    svg.addEventListener("pointermove", function (event) {
      const place = under(event), part = x(svg.dataset, place) / svg.viewBox.baseVal.width;
      tip.textContent = spoken(plan.has_profit ? tip.dataset.sayProfit : tip.dataset.say, place);
      tip.style.left = 100 * part + "%";
      tip.style.transform = "translateX(" + -100 * part + "%)";
      tip.hidden = false;
    });
    svg.addEventListener("pointerleave", function () { tip.hidden = true; });
    svg.addEventListener("click", function (event) { go(under(event)); });
  });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape") return;
    tip.hidden = true;
    if (document.activeElement.classList.contains("term")) document.activeElement.blur();
  });

  // On paper nothing can be opened; the first sheet stays short.
  let closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.from(document.querySelectorAll(".rest details:not([open])"));
    closed.forEach(function (details) { details.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (details) { details.open = false; });
  });
  renew();
  clearTimeout(timer);
}());
