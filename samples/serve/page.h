// HTML page on which a user draws an image.
#pragma once

inline constexpr const char* page = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>lamina: Fashion-MNIST</title>
<style>
  body { font: 16px sans-serif; margin: 2em; display: flex; gap: 2em; flex-wrap: wrap }
  canvas { width: 336px; height: 336px; image-rendering: pixelated; background: black; touch-action: none }
  meter { width: 12em } td { padding: .1em .6em }
</style>
<div><canvas id="c" width="28" height="28"></canvas><p><button id="clear">Clear</button> Draw a piece of clothing.</div>
<table id="t"></table>
<script>
const c = document.getElementById("c"), g = c.getContext("2d"), t = document.getElementById("t");
const names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];
let last = null, busy = false, again = false;
function clear() { g.fillStyle = "black"; g.fillRect(0, 0, 28, 28); ask(); }
function at(e) { const r = c.getBoundingClientRect(); return [(e.clientX - r.left) * 28 / r.width, (e.clientY - r.top) * 28 / r.height]; }
function line(from, to) {
  g.strokeStyle = "white"; g.lineWidth = 2.5; g.lineCap = "round";
  g.beginPath(); g.moveTo(...from); g.lineTo(...to); g.stroke(); ask();
}
function ask() {
  if (busy) { again = true; return; }
  busy = true; again = false;
  c.toBlob(async b => {
    try {
      const r = await fetch("/predict", {method: "POST", headers: {"Content-Type": "image/png"}, body: b}), j = await r.json();
      t.textContent = r.ok ? "" : j.error;
      if (r.ok) names.forEach((n, i) => {
        const row = t.insertRow(); row.insertCell().textContent = n;
        const m = document.createElement("meter"); m.value = j.probabilities[i]; row.insertCell().append(m);
        row.insertCell().textContent = (100 * j.probabilities[i]).toFixed(1) + " %";
        if (i === j.label) row.style.fontWeight = "bold";
      });
    } catch (e) { t.textContent = "the server does not answer"; }
    busy = false; if (again) ask();
  }, "image/png");
}
c.onpointerdown = e => { c.setPointerCapture(e.pointerId); last = at(e); line(last, last); };
c.onpointermove = e => { if (last) { const p = at(e); line(last, p); last = p; } };
c.onpointerup = c.onpointercancel = () => { last = null; };
document.getElementById("clear").onclick = clear;
clear();
</script>
)html";
