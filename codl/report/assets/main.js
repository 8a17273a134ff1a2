"use strict";
showGlance();
showOperators();
showScatter();
new Graph();
new Timeline();
document.documentElement.dataset.ready = "true";
