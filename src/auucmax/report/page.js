"use strict";
// Looks numbers up on a grid of places and interpolates between two of them; computes no
// statistics. An element says by data-list which numbers of the plan it shows (two of them are an
// interval) and by data-form how; data-say is a sentence with such pairs in braces. All that is
// written is text (textContent, aria-valuetext) or the place of a marker.
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
  const forms = {
    whole: function (value) { return text(value, 0); },
    gain: function (value) { return text(value, plan.digits.gain); },
    risk: function (value) { return text(value, 4); },
    money: function (value) {
      return text(value, plan.digits.money) + (plan.currency ? " " + plan.currency : "");
    },
    percent: function (value) {
      const whole = Math.abs(100 * value - Math.round(100 * value)) < 1e-9;
      return text(100 * value, whole ? 0 : 1) + "%";
    },
  };
  function found(names, form, place) {
    const values = names.map(function (name) {
      // A name with a point: the list of one arm.
      return at(name.split(".").reduce(function (one, part) { return one[part]; }, plan), place);
    });
    if (values.length === 2) {
      if (values[0] === null) return "interval cannot be said";
      return forms[form](values[0]) + " to " + forms[form](values[1]);
    }
    return values[0] === null ? "unknown" : forms[form](values[0]);
  }
  function spoken(sentence, place) {
    return sentence.replace(/\{([^}]*)\}/g, function (_, words) {
      const names = words.split(" "), form = names.pop();
      return found(names, form, place);
    });
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
    mark(place);
    // Spoken once the slider rests: a sentence for each step would only be noise.
    clearTimeout(timer);
    timer = setTimeout(function () { said.textContent = spoken(said.dataset.say, place); }, 400);
  }
  function mark(place) {
    const gain = at(curve.uplift, place);
    document.querySelectorAll("svg.figure").forEach(function (svg) {
      const d = svg.dataset, x = +d.x0 + (d.x1 - d.x0) * place / last;
      const line = svg.querySelector(".marker"), dot = svg.querySelector(".marker-dot");
      if (!line) return;
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      if (!dot || gain === null) return;
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", +d.y0 + (d.y1 - d.y0) * gain * d.scale);
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
