"use strict";
// Looks numbers up on the grid of shares and interpolates between two of them; computes no
// statistics. All that it writes is text (textContent) or the place of a marker.
(function () {
  const summary = JSON.parse(document.getElementById("numbers").textContent);
  const plan = summary.plan, curve = summary.curve, last = plan.share.length - 1;
  const share = document.getElementById("share"), budget = document.getElementById("budget");
  const said = document.getElementById("said"), few = document.getElementById("few");
  let timer = 0;

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
  function money(value) {
    return text(value, plan.digits.money) + (plan.currency ? " " + plan.currency : "");
  }
  function range(low, high, form) {
    return low === null ? "interval cannot be said" : form(low) + " to " + form(high);
  }
  function put(id, value) {
    const element = document.getElementById(id);
    if (element) element.textContent = value;
  }
  function count(value) { return text(value, plan.digits.gain); }

  function show(place) {
    const people = text(at(plan.people, place), 0);
    const percent = text(place, place === Math.round(place) ? 0 : 1) + "%";
    const gain = count(at(plan.gain, place));
    const ends = range(at(plan.gain_lower, place), at(plan.gain_upper, place), count);
    put("share-value", percent);
    put("people", people);
    put("gain", gain);
    put("gain-interval", ends);
    let words = percent + " treated: " + people + " people, expected gain " + gain + ", " + ends;
    if (plan.cost) {
      const cost = money(at(plan.cost, place));
      put("cost", cost);
      put("budget-value", cost);
      words += "; cost " + cost;
      if (budget) budget.setAttribute("aria-valuetext", cost + ", " + percent + " of people");
    }
    if (plan.risk) put("risk", text(at(plan.risk, place), 4));
    if (plan.profit) {
      const profit = money(at(plan.profit, place));
      const span = range(at(plan.profit_lower, place), at(plan.profit_upper, place), money);
      put("profit", profit);
      put("profit-interval", span);
      words += "; profit " + profit + ", " + span;
    }
    share.setAttribute("aria-valuetext", percent + " of people, " + people + " people");
    few.hidden = place === 0 || curve.reliable[Math.floor(place)];
    mark(place);
    // Spoken once the slider rests: a sentence for each step would only be noise.
    clearTimeout(timer);
    timer = setTimeout(function () { said.textContent = words + "."; }, 400);
  }
  function mark(place) {
    const gain = at(curve.uplift, place);
    document.querySelectorAll("svg.uplift").forEach(function (svg) {
      const d = svg.dataset, x = +d.x0 + (d.x1 - d.x0) * place / last;
      const y = +d.y0 + (d.y1 - d.y0) * gain * d.scale;
      const line = svg.querySelector(".marker"), dot = svg.querySelector(".marker-dot");
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
    });
  }
  function go(place) {
    share.value = place;
    if (budget) budget.value = place * 10;
    show(place);
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

  // On paper nothing can be opened.
  let closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (details) { details.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (details) { details.open = false; });
  });
  go(Number(share.value));
  clearTimeout(timer);
}());
