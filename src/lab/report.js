/* report.js: the value of the sample under the pointer, or of the one the arrow keys chose. Without it the browser's own
   titles do, and the table of all samples. */
document.querySelectorAll(".frame").forEach(function (frame) {
    var tip = frame.querySelector(".tip"), points = Array.from(frame.querySelectorAll("use.pt")), at = -1;
    points.forEach(function (p) {
        var title = p.querySelector("title");
        p.dataset.t = title.textContent;
        title.remove();
        p.addEventListener("pointerenter", function () { show(points.indexOf(p)); });
        p.addEventListener("pointerleave", hide);
    });
    function hide() {
        if (at >= 0) points[at].classList.remove("on");
        tip.hidden = true;
    }
    function show(i) {
        hide();
        at = i;
        var p = points[i], box = p.getBoundingClientRect(), all = frame.getBoundingClientRect();
        p.classList.add("on");
        tip.textContent = p.dataset.t;
        tip.hidden = false;
        var x = box.left + box.width / 2 - all.left - tip.offsetWidth / 2, y = box.top - all.top - tip.offsetHeight - 8;
        tip.style.left = Math.max(0, Math.min(x, all.width - tip.offsetWidth)) + "px";
        tip.style.top = (y < 0 ? box.bottom - all.top + 8 : y) + "px";
    }
    frame.addEventListener("keydown", function (e) {
        var to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: points.length - 1 }[e.key];
        if (e.key === "Escape") hide();
        if (to === undefined || !points.length) return;
        e.preventDefault();
        show(Math.max(0, Math.min(to, points.length - 1)));
    });
    frame.addEventListener("blur", hide);
});
