// Charts of one case. A series arrives as small integers: offset + step * integer nanoseconds.

const SIDE_NAMES = ["base", "other"];
const sideColor = (place) => color(place ? "side-other" : "side-base");
const PHASES = [
  ["load_ns", "load graph"], ["import_ns", "import engine"], ["build_ns", "build"],
  ["plan_ns", "plan"], ["first_run_ns", "first run"],
];
const BINS = 48;

const sum = (values) => values.reduce((left, right) => left + right, 0);
const countOf = (series) => sum(series.n);
const nanoseconds = (series, integer) => series.offset + series.step * integer;

// What is known of a distribution: values from least to largest (ns), and the share of the samples
// at or below each. All samples where they are here, else quantiles.
function distributionOf(series) {
  if (series.raw) {
    const values = series.raw.map((integer) => nanoseconds(series, integer)).sort((a, b) => a - b);
    return {
      values, shares: values.map((_, i) => (values.length > 1 ? i / (values.length - 1) : 1)),
    };
  }
  let integer = 0;
  return {
    values: series.q.map((step) => nanoseconds(series, (integer += step))),
    shares: page.shares[series.q.length],
  };
}

function quantile({ values, shares }, share) {
  let above = shares.findIndex((known) => known >= share);
  if (above < 0) above = shares.length - 1;
  if (above === 0) return values[0];
  const part = (share - shares[above - 1]) / (shares[above] - shares[above - 1]);
  return values[above - 1] + part * (values[above] - values[above - 1]);
}

function shareBeyond({ values, shares }, limit) {
  const last = values.findIndex((value) => value > limit);
  return last <= 0 ? 0 : 1 - shares[last - 1];
}

// Share of the samples in each bin. Between two quantiles the samples are taken as evenly spread.
function histogram(series, { values, shares: known }, edges) {
  const shares = new Array(edges.length - 1).fill(0);
  const bin = (value) => {
    let low = 0, high = shares.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (edges[middle] <= value) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  if (series.raw) {
    for (const value of values) if (
      value <= edges[edges.length - 1]
    ) shares[bin(value)] += 1 / values.length;
    return shares;
  }
  for (let i = 1; i < values.length; i += 1) {
    const low = values[i - 1], high = values[i], mass = known[i] - known[i - 1];
    if (low >= edges[edges.length - 1]) break;
    const first = bin(low), last = bin(high);
    for (let k = first; k <= last; k += 1) {
      const begin = k === first ? low : edges[k], end = Math.min(high, edges[k + 1]);
      shares[k] += high > low ? mass * Math.max(end - begin, 0) / (high - low) : mass;
    }
  }
  return shares;
}

// The stretch of time that a chart shows: all of it, unless a few spikes would press the rest flat.
// Where it spans more than a decade or so, its axis is logarithmic.
function frameOf(distributions, room) {
  const low = Math.min(...distributions.map((one) => quantile(one, 0)));
  const tail = Math.max(...distributions.map((one) => quantile(one, 0.985)));
  const largest = Math.max(...distributions.map((one) => quantile(one, 1)));
  const clipped = largest > tail + room * (tail - low);
  const high = clipped ? tail + 0.3 * room * (tail - low) : largest;
  const [factor, unit] = scaleOf(high, "ns");
  const log = low > 0 && high > 8 * low;
  const ends = [low / factor, high / factor].map((end) => (log ? Math.log10(end) : end));
  const edge = 0.03 * (ends[1] - ends[0] || Math.abs(ends[0]) * 0.01 || 1);
  const axis = {
    range: [ends[0] - edge, ends[1] + edge], ...(log ? { type: "log", nticks: 6 } : {})
  };
  return { low, high, largest, clipped, factor, unit, log, axis };
}

function edgesOf({ low, high, log }, bins) {
  const top = high > low ? high : low + Math.max(low * 0.01, 1);
  const at = (part) => (log ? low * (top / low) ** part : low + part * (top - low));
  return Array.from({ length: bins + 1 }, (_, i) => at(i / bins));
}

function distributionChart(node, series, cumulative) {
  const sides = [0, 1].filter((place) => series[place]);
  const known = new Map(sides.map((place) => [place, distributionOf(series[place])]));
  const frame = frameOf([...known.values()], 0.5);
  const traces = sides.map(
    (place) => (cumulative ? cumulativeTrace : shareTrace)(
      series[place], known.get(place), place, frame
    )
  );
  const shapes = sides.map((place) => {
    const middle = quantile(known.get(place), 0.5) / frame.factor;
    return {
      type: "line", x0: middle, x1: middle, y0: 0, y1: 1, yref: "paper",
      line: { color: sideColor(place), width: 1.5, dash: place ? "solid" : "dot" },
    };
  });
  draw(node, traces, {
    height: 260, showlegend: true, shapes, margin: { l: 8, r: 8, t: 30, b: 8 },
    xaxis: { title: { text: frame.unit }, ...frame.axis },
    yaxis: {
      title: { text: cumulative ? "% of samples at or below" : "% of samples" },
      rangemode: "tozero",
    },
  });
  const beyond = sides.map(
    (place) => [place, shareBeyond(known.get(place), frame.high)]
  ).filter(([, share]) => share > 0);
  return beyond.map(([place, share]) => {
    const about = `about ${significant(100 * share, 2)} % of the samples lie beyond the right edge`;
    const most = valueText(quantile(known.get(place), 1), "ns");
    return `${SIDE_NAMES[place]}: ${about}, up to ${most}`;
  });
}

function traceOf(place, extra) {
  return {
    type: "scatter", mode: "lines", name: SIDE_NAMES[place],
    line: { color: sideColor(place), width: 1.8, dash: place ? "solid" : "dot" }, ...extra
  };
}

function cumulativeTrace(series, { values, shares }, place, { factor }) {
  return traceOf(
    place,
    {
      x: values.map((value) => value / factor), y: shares.map((share) => 100 * share),
      hovertemplate: "%{y:.1f} % at or below %{x:.5~g}<extra></extra>",
    }
  );
}

function shareTrace(series, known, place, frame) {
  const bins = Math.max(6, Math.min(BINS, Math.round(2 * Math.sqrt(countOf(series)))));
  const edges = edgesOf(frame, bins), factor = frame.factor;
  const y = histogram(series, known, edges).map((share) => 100 * share);
  return traceOf(place, {
    x: edges.map((edge) => edge / factor), y: [...y, 0],
    line: { color: sideColor(place), width: 1.6, shape: "hv" },
    fill: "tozeroy", fillcolor: `${sideColor(place)}26`,
    hovertemplate: "%{y:.1f} % near %{x:.5~g}<extra></extra>",
  });
}

// Every iteration in order; buckets as a band from least to largest around the median.
function courseTraces(series, place, factor, axis) {
  const line = { x: [], y: [] }, band = { x: [], y: [] };
  let first = 0, bucket = 0;
  series.n.forEach((count, round) => {
    if (series.raw) {
      for (let i = 0; i < count; i += 1) {
        line.x.push(first + i + 1);
        line.y.push(nanoseconds(series, series.raw[first + i]) / factor);
      }
    } else {
      const buckets = series.buckets[round], upper = [], lower = [];
      for (let k = 0; k < buckets; k += 1, bucket += 1) {
        const begin = Math.floor((k * count) / buckets), end = Math.floor(
          ((k + 1) * count) / buckets
        );
        const x = first + (begin + end + 1) / 2, middle = series.mid[bucket];
        line.x.push(x);
        line.y.push(nanoseconds(series, middle) / factor);
        for (const edge of [first + begin + 0.5, first + end + 0.5]) {
          upper.push([edge, nanoseconds(series, middle + series.up[bucket]) / factor]);
          lower.push([edge, nanoseconds(series, middle - series.down[bucket]) / factor]);
        }
      }
      for (const [x, y] of [...upper, ...lower.reverse()]) {
        band.x.push(x);
        band.y.push(y);
      }
      band.x.push(null);
      band.y.push(null);
    }
    line.x.push(null);
    line.y.push(null);
    first += count;
  });
  const shown = {
    ...axis, name: SIDE_NAMES[place], hovertemplate: "iteration %{x}: %{y:.5~g}<extra></extra>",
  };
  const small = line.x.length > 600 ? 2.5 : 4;
  const traces = [
    traceOf(
      place,
      {
        ...shown, ...line, mode: series.raw ? "markers" : "lines",
        marker: { size: small, color: sideColor(place) },
        line: { color: sideColor(place), width: 1.4 },
      }
    ),
  ];
  if (!series.raw) traces.unshift(
    traceOf(
      place,
      {
        ...axis, ...band, fill: "toself", fillcolor: `${sideColor(place)}33`, line: { width: 0 },
        hoverinfo: "skip", showlegend: false,
      }
    )
  );
  return traces;
}

function clockTrace(series, side, place, axis) {
  const line = { x: [], y: [] };
  let first = 0;
  series.n.forEach((count, i) => {
    const [, before, after] = (side.rounds || [])[i] || [];
    for (const [x, y] of [[first + 1, before], [first + count, after]]) {
      if (known(y)) {
        line.x.push(x);
        line.y.push(y);
      }
    }
    line.x.push(null);
    line.y.push(null);
    first += count;
  });
  return traceOf(
    place,
    {
      ...axis, ...line, mode: "lines+markers", marker: { size: 4, color: sideColor(place) },
      showlegend: false, hovertemplate: "%{y:.0f} MHz<extra></extra>",
    }
  );
}

function roundMarks(series, side, yaxis, yref) {
  const shapes = [], annotations = [];
  let first = 0;
  series.n.forEach((count, round) => {
    const cut = ((side.rounds || [])[round] || [])[0];
    if (round) shapes.push(
      {
        type: "line", x0: first + 0.5, x1: first + 0.5, y0: 0, y1: 1, yref: `${yref} domain`,
        line: { color: color("soft"), width: 1, dash: "dot" },
      }
    );
    if (cut) shapes.push(
      {
        type: "rect", x0: first + 0.5, x1: first + cut + 0.5, y0: 0, y1: 1, yref: `${yref} domain`,
        fillcolor: color("band"), line: { width: 0 }, layer: "below",
      }
    );
    if (series.n.length <= 12) annotations.push(
      {
        x: first + count / 2, y: 1, yref: `${yref} domain`, yanchor: "bottom", showarrow: false,
        text: `round ${round + 1}`, font: { size: 10, color: color("soft") },
      }
    );
    first += count;
  });
  return { shapes, annotations };
}

function courseChart(node, series, sides) {
  const places = [0, 1].filter((place) => series[place]);
  const frame = frameOf(places.map((place) => distributionOf(series[place])), 3);
  const { factor, unit } = frame;
  const clocks = places.some(
    (place) => (sides[place].rounds || []).some((round) => known(round[1]))
  );
  const panels = places.length + (clocks ? 1 : 0), gap = 0.09;
  const traces = [], shapes = [], annotations = [], axes = {};
  const share = (1 - gap * (panels - 1)) / (places.length + (clocks ? 0.55 : 0));
  places.forEach((place, i) => {
    const name = i ? `y${i + 1}` : "y", top = 1 - i * (share + gap);
    axes[`yaxis${i ? i + 1 : ""}`] = {
      domain: [Math.max(top - share, 0), top], ...frame.axis,
      title: { text: `${SIDE_NAMES[place]}, ${unit}` }, ...(i ? { matches: "y" } : {}),
    };
    traces.push(...courseTraces(series[place], place, factor, { yaxis: name }));
    const marks = roundMarks(series[place], sides[place], axes, name);
    shapes.push(...marks.shapes);
    annotations.push(...marks.annotations);
  });
  if (clocks) {
    const name = `y${panels}`;
    axes[`yaxis${panels}`] = {
      domain: [0, share * 0.55], title: { text: "clock, MHz" }, nticks: 3,
    };
    for (const place of places) traces.push(
      clockTrace(series[place], sides[place], place, { yaxis: name })
    );
  }
  draw(node, traces, {
    height: 150 * places.length + (clocks ? 110 : 0) + 40, shapes, annotations,
    margin: { l: 8, r: 8, t: 20, b: 8 },
    xaxis: {
      title: { text: "iteration" }, anchor: `y${panels > 1 ? panels : ""}`, showgrid: false,
      zeroline: false,
    },
    ...axes
  });
  const most = valueText(frame.largest, "ns");
  const hint = `Spikes up to ${most} lie above the chart; double-click it to see them`;
  return frame.clipped ? [hint] : [];
}

function initChart(node, sides) {
  const places = [1, 0].filter((place) => sides[place] && sides[place].init);
  const most = Math.max(...places.map((place) => sum(Object.values(sides[place].init))));
  const [factor, unit] = scaleOf(most, "ns");
  const traces = PHASES.map(([phase, title], i) => ({
    type: "bar", orientation: "h", name: title, y: places.map((place) => SIDE_NAMES[place]),
    x: places.map((place) => (sides[place].init[phase] || 0) / factor),
    marker: { color: color(`phase-${i}`) },
    hovertemplate: `${title}: %{x:.4~g} ${unit}<extra></extra>`,
  })).filter((trace) => trace.x.some((value) => value > 0));
  draw(node, traces, {
    height: 90 + 42 * places.length, barmode: "stack", showlegend: true,
    margin: { l: 8, r: 8, t: 34, b: 8 }, bargap: 0.35,
    xaxis: { title: { text: unit } }, yaxis: { showgrid: false },
    legend: {
      orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal",
      font: { color: color("soft") },
    },
  });
}

function peakOf(ceiling, dtype) {
  const wanted = dtype.toLowerCase();
  const found = Object.entries(ceiling.tflops).find(([name]) => name.toLowerCase() === wanted);
  return found ? found[1] : null;
}

// Points of both sides under the measured ceilings; null where work or rate is unknown.
function rooflinePoints(sides) {
  return [0, 1].filter(
    (place) => sides[place] && sides[place].achieved && known(sides[place].work[2]) && known(
      sides[place].achieved[1]
    )
  )
    .map((place) => ({ place, intensity: sides[place].work[2], tflops: sides[place].achieved[1] }))
    .filter((point) => point.intensity > 0 && point.tflops > 0);
}

function rooflineChart(node, sides, ceiling, dtype) {
  const points = rooflinePoints(sides), peak = peakOf(ceiling, dtype);
  const slope = ceiling.gbps / 1000;
  const at = points.map((point) => point.intensity);
  const ridge = known(peak) ? peak / slope : Math.max(...at);
  const left = Math.min(...at, ridge) / 8, right = Math.max(...at, ridge) * 8;
  const roof = [left, ...(known(peak) ? [ridge] : []), right];
  const traces = [{
    type: "scatter", mode: "lines", name: "measured ceiling", x: roof,
    y: roof.map((x) => (known(peak) ? Math.min(peak, slope * x) : slope * x)),
    line: { color: color("soft"), width: 1.5 }, hoverinfo: "skip",
  }, ...points.map((point) => ({
    type: "scatter", mode: "markers", name: SIDE_NAMES[point.place], x: [point.intensity],
    y: [point.tflops],
    marker: {
      size: 12, color: sideColor(point.place), symbol: point.place ? "diamond" : "circle-open",
      line: { width: 2 },
    },
    hovertemplate: `${SIDE_NAMES[point.place]}: %{y:.4~g} TFLOP/s<extra></extra>`,
  }))];
  draw(node, traces, {
    height: 260, showlegend: true, margin: { l: 8, r: 8, t: 30, b: 8 },
    xaxis: { type: "log", title: { text: "FLOP per byte" }, dtick: "D2" },
    yaxis: { type: "log", title: { text: "TFLOP/s" }, dtick: "D2" },
  });
}
