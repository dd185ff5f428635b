// The page of a composition: everything is drawn by our own code.

import { showChecks, showFront } from "./compose_front.js";
import { showHead } from "./compose_head.js";
import { showLayers } from "./compose_layers.js";
import { showSteps } from "./compose_steps.js";
import { showTheme } from "./theme.js";

showHead();
showChecks();
showSteps();
showLayers();
showFront();
showTheme();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
