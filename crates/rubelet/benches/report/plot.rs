//! Plots as SVG, written by hand: small, the same for the same data, and legible on a light and on a dark page.

use std::fmt::Write as _;

use crate::data::{Data, FAKE, FLOOR, RUBELET, UPSTREAM};
use crate::text::amount;

/// The size of a plot and of the space around its axes.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 48.0;
/// At most so many steps on an axis.
const STEPS: f64 = 6.0;

/// Colours of middle lightness for what is plotted; words and lines follow the reader's page.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#57606a}.title{font-size:14px;font-weight:600;fill:#24292f}\
.grid{stroke:#8c959f;stroke-opacity:.3}.axis{stroke:#8c959f}.line{fill:none;stroke-width:2;stroke-linejoin:round}\
.dash{stroke-dasharray:5 4}.c0{stroke:#e8590c}.c1{stroke:#4c8dff}.c2{stroke:#8c959f}.c3{stroke:#2f9e44}\
.b0{fill:#e8590c}.b1{fill:#4c8dff}.b2{fill:#8c959f}.b3{fill:#2f9e44}.n{text-anchor:middle}.e{text-anchor:end}\
@media(prefers-color-scheme:dark){text{fill:#9da7b3}.title{fill:#e6edf3}}";

/// A plot, and the name of its file.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// Every plot for which there is data.
pub(crate) fn plots(data: &Data) -> Vec<Plot> {
    let shares = [
        shares(data, "create-ready", "create → Ready, 100 pods at once", ("create-ready", "100")),
        shares(data, "delete-gone", "delete → gone, 100 pods at once, grace 30 s", ("delete-gone", "100-grace30")),
    ];
    let bars = [
        bars(data, "memory", "RSS when idle, by number of pods", "rss"),
        bars(data, "cpu", "CPU of one core when idle, by number of pods", "cpu"),
    ];
    shares.into_iter().chain(bars).chain([growth(data)]).flatten().collect()
}

/// One line of a plot.
struct Series {
    name: String,
    /// Its place among the colours.
    colour: usize,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

/// Which share of the pods was there after how long.
fn shares(data: &Data, name: &'static str, title: &str, (figure, case): (&str, &str)) -> Option<Plot> {
    let agents = [(RUBELET, "rubelet", false), (UPSTREAM, "upstream", false), (FLOOR, "bare CRI", true)];
    let series: Vec<Series> = (0..)
        .zip(agents)
        .filter_map(|(colour, (agent, called, dashed))| {
            let values = data.values(agent, figure, case);
            let half = data.p50(agent, figure, case)?;
            let count = whole(values.len());
            let steps = values.iter().zip(1..).flat_map(|(value, rank)| {
                let seconds = value / 1000.0;
                [(seconds, 100.0 * whole(rank - 1) / count), (seconds, 100.0 * whole(rank) / count)]
            });
            let name = format!("{called}, half after {}", amount(Some(half), "ms"));
            Some(Series { name, colour, dashed, points: [(0.0, 0.0)].into_iter().chain(steps).collect() })
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    Some(lines(name, title, &series, Axes { x: "seconds", y: "% of the pods", top: Some(100.0), bar: None }))
}

/// What one pod costs on a node of many, against a node of few.
fn growth(data: &Data) -> Option<Plot> {
    let figures = [
        ("growth-cold", "CPU, caches cold"),
        ("growth-cpu", "CPU, caches warm"),
        ("growth-memory", "memory"),
        ("growth-latency", "one more pod"),
    ];
    let series: Vec<Series> = (0..)
        .zip(figures)
        .filter_map(|(colour, (figure, called))| {
            let cases = data.cases(figure);
            let at = |case: &str| Some((case.parse().ok()?, data.p50(FAKE, figure, case)?));
            let points: Vec<(f64, f64)> = cases.into_iter().filter_map(at).collect();
            let (_, first) = points.first().copied().filter(|(_, first)| *first > 0.0)?;
            let points = points.into_iter().map(|(pods, value)| (pods, value / first)).collect();
            Some(Series { name: called.to_owned(), colour, dashed: colour == 3, points })
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let axes = Axes { x: "fake pods on the node", y: "times that of the fewest", top: None, bar: Some(1.1) };
    Some(lines("growth", "growth: one pod's cost, by number of pods", &series, axes))
}

struct Axes {
    x: &'static str,
    y: &'static str,
    /// Where the upper end of the vertical axis is, if it is not where the data ends.
    top: Option<f64>,
    /// What must not be exceeded.
    bar: Option<f64>,
}

fn lines(name: &'static str, title: &str, series: &[Series], axes: Axes) -> Plot {
    let points = || series.iter().flat_map(|series| &series.points);
    let right = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).chain(axes.bar).fold(0.0, f64::max);
    let mut canvas = Canvas::new(title, (right, axes.top.unwrap_or(highest * 1.1)));
    canvas.horizontal(axes.x);
    canvas.vertical(axes.y);
    if let Some(bar) = axes.bar {
        let (y, x) = (canvas.y(bar), WIDTH - RIGHT);
        canvas.put(format_args!("<path class=\"axis dash\" d=\"M{LEFT} {y:.1}H{x}\"/>"));
        canvas.put(format_args!("<text class=\"e\" x=\"{x}\" y=\"{:.1}\">bar: {bar}</text>", y - 4.0));
    }
    for series in series {
        let places: Vec<(f64, f64)> = series.points.iter().map(|(x, y)| (canvas.x(*x), canvas.y(*y))).collect();
        let path = path(&places);
        let dash = if series.dashed { " dash" } else { "" };
        canvas.put(format_args!("<path class=\"line c{}{dash}\" d=\"{path}\"/>", series.colour));
    }
    let names: Vec<(usize, &str)> = series.iter().map(|series| (series.colour, series.name.as_str())).collect();
    canvas.legend(&names);
    Plot { name, title: title.to_owned(), svg: canvas.finish() }
}

/// A line through these places. Steps, of which there are many, are written in their short form.
fn path(places: &[(f64, f64)]) -> String {
    let mut path = String::new();
    let mut before = None;
    for &(x, y) in places {
        let _ = match before.replace((x, y)) {
            None => write!(path, "M{x:.1} {y:.1}"),
            Some((_, same)) if same == y => write!(path, "H{x:.1}"),
            Some((same, _)) if same == x => write!(path, "V{y:.1}"),
            Some(_) => write!(path, "L{x:.1} {y:.1}"),
        };
    }
    path
}

/// Two bars for each number of pods.
fn bars(data: &Data, name: &'static str, title: &str, figure: &str) -> Option<Plot> {
    let agents = [RUBELET, UPSTREAM];
    let cases: Vec<&str> =
        data.cases(figure).into_iter().filter(|case| case.chars().all(|c| c.is_ascii_digit())).collect();
    let half = |agent: &str, case: &str| data.p50(agent, figure, case);
    let highest = cases.iter().flat_map(|case| agents.map(|agent| half(agent, case))).flatten().fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let unit = data.unit(figure);
    let mut canvas = Canvas::new(title, (whole(cases.len()), highest * 1.1));
    canvas.vertical(unit);
    for (place, case) in cases.iter().enumerate() {
        let middle = canvas.x(whole(place) + 0.5);
        let base = HEIGHT - BOTTOM;
        canvas.put(format_args!("<text class=\"n\" x=\"{middle:.1}\" y=\"{:.1}\">{case}</text>", base + 18.0));
        for (colour, agent) in agents.iter().enumerate() {
            let Some(value) = half(agent, case) else { continue };
            let (x, y) = (middle - 58.0 + 60.0 * whole(colour), canvas.y(value));
            canvas.put(format_args!(
                "<rect class=\"b{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"56\" height=\"{:.1}\"/>",
                base - y
            ));
            let label = amount(Some(value), unit);
            canvas.put(format_args!("<text class=\"n\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>", x + 28.0, y - 4.0));
        }
    }
    canvas.label_below("pods");
    canvas.legend(&[(0, "rubelet"), (1, "upstream")]);
    Some(Plot { name, title: title.to_owned(), svg: canvas.finish() })
}

/// A picture with two axes that begin at nothing.
struct Canvas {
    svg: String,
    right: f64,
    top: f64,
}

impl Canvas {
    /// Its axes end at `right` and `top`.
    fn new(title: &str, (right, top): (f64, f64)) -> Self {
        let title = escaped(title);
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"22\">{title}</text>\n"
        );
        Self { svg, right: right.max(f64::MIN_POSITIVE), top: top.max(f64::MIN_POSITIVE) }
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.svg, "{what}");
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * value / self.right
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top
    }

    fn horizontal(&mut self, label: &str) {
        for value in ticks(self.right) {
            let (x, y) = (self.x(value), HEIGHT - BOTTOM + 18.0);
            self.put(format_args!("<text class=\"n\" x=\"{x:.1}\" y=\"{y}\">{}</text>", number(value)));
        }
        self.label_below(label);
    }

    fn label_below(&mut self, label: &str) {
        let (x, y) = (LEFT.midpoint(WIDTH - RIGHT), HEIGHT - 10.0);
        self.put(format_args!("<text class=\"n\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(label)));
    }

    fn vertical(&mut self, label: &str) {
        for value in ticks(self.top) {
            let (y, class) = (self.y(value), if value > 0.0 { "grid" } else { "axis" });
            self.put(format_args!("<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{}\"/>", WIDTH - RIGHT));
            let (x, y) = (LEFT - 6.0, y + 4.0);
            self.put(format_args!("<text class=\"e\" x=\"{x}\" y=\"{y:.1}\">{}</text>", number(value)));
        }
        let y = TOP.midpoint(HEIGHT - BOTTOM);
        self.put(format_args!(
            "<text class=\"n\" transform=\"rotate(-90 14 {y})\" x=\"14\" y=\"{y}\">{}</text>",
            escaped(label)
        ));
    }

    fn legend(&mut self, names: &[(usize, &str)]) {
        for (place, (colour, name)) in names.iter().enumerate() {
            let x = LEFT + (WIDTH - LEFT) / whole(names.len().max(3)) * whole(place);
            self.put(format_args!("<rect class=\"b{colour}\" x=\"{x:.0}\" y=\"34\" width=\"12\" height=\"4\"/>"));
            self.put(format_args!("<text x=\"{:.0}\" y=\"41\">{}</text>", x + 18.0, escaped(name)));
        }
    }

    fn finish(self) -> String {
        self.svg + "</svg>\n"
    }
}

/// Round numbers from nothing up to `end`.
pub(crate) fn ticks(end: f64) -> Vec<f64> {
    let mut step = 1e-6;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(60) {
        if end / step <= STEPS {
            break;
        }
        step *= factor;
    }
    (0_u32..).map(|n| f64::from(n) * step).take_while(|value| *value <= end * (1.0 + 1e-9)).take(20).collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn whole(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
