// A line chart of the last minutes. It is drawn by uPlot, in the colours of the page.

import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export interface Series {
  label: string;
  /** A custom property of the page: `--blue`. */
  colour: string;
  values: number[];
  filled?: boolean;
}

interface Props {
  at: number[];
  series: Series[];
  format: (value: number) => string;
  /** Upper end of the scale, if it is fixed. */
  max?: number;
  label: string;
  height?: number;
}

const property = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clock = (seconds: number): string => new Date(seconds * 1000).toTimeString().slice(0, 8);
/** Seconds that a chart shows. */
const SPAN = 180;
const SPAN_MIN = 20;

function options(props: Props, width: number): uPlot.Options {
  const [ink, line] = [property('--muted'), property('--line')];
  const font = `11px ${property('--font')}`;
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: props.height ?? 190,
    padding: [10, 6, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: {
      // A page that was opened lately shows what it has in half of the width, and not in a corner.
      x: { time: false, range: (_u, min, max) => [Math.max(max - SPAN, Math.min(min, max - SPAN_MIN)), max] },
      y: { range: (_u, _min, max) => [0, props.max ?? Math.max(1e-9, (max ?? 1) * 1.12 || 1)] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: 90, values: (_u, splits) => splits.map(clock) },
      { ...axis, size: 62, gap: 6, space: 42, values: (_u, splits) => splits.map(props.format) },
    ],
    series: [
      {},
      ...props.series.map((series) => ({
        label: series.label,
        stroke: property(series.colour),
        width: 1.75,
        points: { show: false },
        fill: series.filled ? `color-mix(in srgb, ${property(series.colour)} 14%, transparent)` : undefined,
        spanGaps: true,
      })),
    ],
  };
}

const dataOf = (props: Props): uPlot.AlignedData => [
  props.at,
  ...props.series.map((series) => series.values.map((value) => (Number.isFinite(value) ? value : null))),
];

export function Chart(props: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shape = props.series.map((series) => series.label + series.colour).join();

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(options(latest.current, Math.max(120, element.clientWidth)), dataOf(latest.current), element);
    };
    draw();
    const sizes = new ResizeObserver(() => {
      const width = Math.max(120, element.clientWidth);
      if (plot.current && plot.current.width !== width) plot.current.setSize({ width, height: latest.current.height ?? 190 });
    });
    sizes.observe(element);
    // The colours are the page's, and those of the system may change.
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', draw);
    const theme = new MutationObserver(draw);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => {
      sizes.disconnect();
      theme.disconnect();
      dark.removeEventListener('change', draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => plot.current?.setData(dataOf(props)), [props.at, props.series]);

  const last = (series: Series): string => {
    const value = series.values.findLast(Number.isFinite);
    return value === undefined ? '–' : props.format(value);
  };
  return (
    <figure class="chart">
      <figcaption>
        {props.series.map((series) => (
          <span key={series.label} class="key">
            <i style={{ background: `var(${series.colour})` }} />
            {series.label} <b class="num">{last(series)}</b>
          </span>
        ))}
      </figcaption>
      <div ref={frame} class="plot" role="img" aria-label={`${props.label}, the last three minutes`} style={{ height: `${props.height ?? 190}px` }} />
    </figure>
  );
}
