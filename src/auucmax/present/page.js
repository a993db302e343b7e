"use strict";
// The slider: it shows the words and places of decisions that were made when the page was written.
(function () {
  const points = JSON.parse(document.getElementById("data").textContent);
  const slider = document.getElementById("place"), tip = document.getElementById("tip");
  const said = document.getElementById("said"), next = document.getElementById("next");
  const figures = document.querySelectorAll("svg.figure[data-x0]");
  const panels = Array.from(document.querySelectorAll("section[data-share]"));
  let timer = 0;

  function put(id, text) { document.getElementById(id).textContent = text; }
  function frame(svg) {
    const d = svg.dataset;
    return { x: (at) => +d.x0 + (d.x1 - d.x0) * at, y: (at) => +d.y0 + (d.y1 - d.y0) * at };
  }
  function mark(point) {
    figures.forEach(function (svg) {
      const line = svg.querySelector(".marker"), dot = svg.querySelector(".marker-dot");
      const place = frame(svg);
      if (!line) return;
      line.setAttribute("x1", place.x(point.at));
      line.setAttribute("x2", place.x(point.at));
      if (!dot) return;
      dot.classList.toggle("unseen", point.y === null);
      dot.setAttribute("cx", place.x(point.at));
      dot.setAttribute("cy", place.y(point.y || 0));
    });
  }
  function show(number) {
    const point = points[number], state = document.getElementById("state");
    slider.value = number;
    slider.setAttribute("aria-valuetext", point.label);
    put("label", point.label);
    put("verdict", point.verdict);
    put("state", point.state);
    state.className = "chip " + point.style;
    next.hidden = !point.next;
    next.querySelector("span").textContent = point.next;
    document.getElementById("facts").replaceChildren(...point.facts.map(function (fact) {
      const row = document.createElement("div");
      ["dt", "dd"].forEach(function (tag, k) {
        row.appendChild(document.createElement(tag)).textContent = fact[k];
      });
      return row;
    }));
    const away = panels.map(function (panel) { return Math.abs(panel.dataset.share - point.share); });
    const nearest = away.indexOf(Math.min(...away));
    panels.forEach(function (panel, k) { panel.hidden = k !== nearest; });
    mark(point);
    // Spoken once the slider rests: a sentence for each step would only be noise.
    clearTimeout(timer);
    timer = setTimeout(function () { said.textContent = point.verdict; }, 400);
  }

  if (slider) {
    slider.addEventListener("input", function () { show(Number(slider.value)); });
    document.querySelectorAll("button[data-place]").forEach(function (button) {
      button.addEventListener("click", function () { show(Number(button.dataset.place)); });
    });
    document.querySelectorAll("svg.curve").forEach(function (svg) {
      function under(event) {
        const box = svg.getBoundingClientRect(), d = svg.dataset;
        const left = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
        const at = (left - d.x0) / (d.x1 - d.x0);
        return points.reduce(function (best, point, k) {
          return Math.abs(point.at - at) < Math.abs(points[best].at - at) ? k : best;
        }, 0);
      }
      svg.addEventListener("pointermove", function (event) {
        const point = points[under(event)];
        const part = frame(svg).x(point.at) / svg.viewBox.baseVal.width;
        tip.textContent = point.label + ": " + point.value;
        tip.style.left = 100 * part + "%";
        tip.style.transform = "translateX(" + -100 * part + "%)";
        tip.hidden = false;
      });
      svg.addEventListener("pointerleave", function () { tip.hidden = true; });
      svg.addEventListener("click", function (event) { show(under(event)); });
    });
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape") tip.hidden = true;
    });
  }

  // On paper nothing can be opened.
  let closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.from(document.querySelectorAll(".rest details:not([open])"));
    closed.forEach(function (details) { details.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (details) { details.open = false; });
  });
}());
