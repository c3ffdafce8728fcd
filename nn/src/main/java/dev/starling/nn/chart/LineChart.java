package dev.starling.nn.chart;

import dev.starling.nn.chart.Canvas.Anchor;
import dev.starling.nn.chart.Canvas.Spot;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;

/** Lines through points over two axes, with round numbers at the axes. Points that are not finite are left out. */
public final class LineChart {
    private static final String INK = "#333333";
    private static final String GRID = "#e6e6e6";
    private static final int SIZE = 12;
    /** An upper bound of the width of a digit, as a share of the size of the text. */
    private static final double DIGIT = 0.62;
    private static final int GAP = 8;
    private static final int TITLE = 34;
    private static final int BOTTOM = 46;
    private static final int LEGEND = 18;
    private static final int INTERVALS = 5;
    private static final int MAX_POINTS = 400;
    private static final double DOT = 5;

    private final String title;
    private final String xTitle;
    private final boolean logarithmic;
    private final List<Line> lines = new ArrayList<>();

    private record Line(String name, String colour, boolean marked, List<Spot> points) { }

    /** The round numbers of an axis, in equal distances. */
    private record Axis(double first, double step, int intervals, boolean logarithmic) {
        /** Returns an axis that contains all of some values. */
        static Axis of(double[] values, boolean logarithmic, boolean fromZero) {
            double low = fromZero ? 0 : Double.POSITIVE_INFINITY;
            double high = fromZero ? 0 : Double.NEGATIVE_INFINITY;
            for (double value : values) {
                low = Math.min(low, value);
                high = Math.max(high, value);
            }
            if (!(low < high)) {
                boolean none = low > high;
                // Neighbours of a large number are farther from it than 0.5.
                double margin = none ? 0.5 : Math.max(0.5, Math.abs(low) * 1e-9);
                low = none ? 0 : low - (fromZero ? 0 : margin);
                high = low + 2 * margin;
            }
            double step = logarithmic ? Math.max(1, Math.ceil((high - low) / INTERVALS))
                    : roundStep((high - low) / INTERVALS);
            double first = Math.floor(low / step * (1 + Math.ulp(1.0)));
            return new Axis(first * step, step, (int) Math.max(1, Math.ceil(high / step - first - 1e-9)), logarithmic);
        }

        double last() {
            return first + intervals * step;
        }

        /** Returns the place of a value, 0 at the first number and 1 at the last. */
        double place(double value) {
            return (value - first) / (last() - first);
        }

        String label(int tick) {
            double value = first + tick * step;
            if (logarithmic) {
                return "1e" + Math.round(value);
            }
            int decimals = Math.clamp((int) -Math.floor(Math.log10(step) + 1e-9), 0, 9);
            return step >= 1e6 || step < 1e-6 ? String.format(Locale.ROOT, "%.2g", value)
                    : String.format(Locale.ROOT, "%." + decimals + "f", value);
        }

        List<String> labels() {
            return IntStream.rangeClosed(0, intervals).mapToObj(this::label).toList();
        }

        /** Returns the smallest of 1, 2 or 5 times a power of ten that is not below a number. */
        private static double roundStep(double minimum) {
            double power = Math.pow(10, Math.floor(Math.log10(minimum)));
            double factor = minimum / power;
            return factor <= 1 + 1e-9 ? power : factor <= 2 ? 2 * power : factor <= 5 ? 5 * power : 10 * power;
        }
    }

    /**
     * Creates a chart without lines.
     *
     * @param logarithmic whether the x axis is logarithmic; all x are then greater than 0
     */
    public LineChart(String title, String xTitle, boolean logarithmic) {
        this.title = title;
        this.xTitle = xTitle;
        this.logarithmic = logarithmic;
    }

    /**
     * Adds a line. Of more than 400 points, means of neighbours are drawn.
     *
     * @param colour as {@code #rrggbb}
     * @param marked whether each point has a dot
     */
    public LineChart line(String name, String colour, boolean marked, double[] x, double[] y) {
        List<Spot> points = new ArrayList<>();
        for (int i = 0; i < x.length; i++) {
            double at = logarithmic ? Math.log10(x[i]) : x[i];
            if (Double.isFinite(at) && Double.isFinite(y[i])) {
                points.add(new Spot(at, y[i]));
            }
        }
        lines.add(new Line(name, colour, marked, average(points)));
        return this;
    }

    private static List<Spot> average(List<Spot> points) {
        int group = (points.size() + MAX_POINTS - 1) / MAX_POINTS;
        List<Spot> averaged = new ArrayList<>();
        for (int from = 0; group > 1 && from < points.size(); from += group) {
            List<Spot> near = points.subList(from, Math.min(from + group, points.size()));
            averaged.add(new Spot(near.stream().mapToDouble(Spot::x).average().orElseThrow(),
                    near.stream().mapToDouble(Spot::y).average().orElseThrow()));
        }
        return group > 1 ? averaged : points;
    }

    /** Draws the chart in a rectangle. */
    public void draw(Canvas canvas, double left, double top, double width, double height) {
        Axis x = Axis.of(values(Spot::x), logarithmic, !logarithmic);
        double[] heights = values(Spot::y);
        double lowest = Arrays.stream(heights).min().orElse(0);
        Axis y = Axis.of(heights, false, lowest >= 0 && lowest <= Arrays.stream(heights).max().orElse(0) / 2);
        double gutter = GAP + widest(y.labels()) + GAP;
        double plotLeft = left + gutter;
        double plotTop = top + TITLE;
        double plotWidth = width - gutter - 2 * GAP - widest(List.of(x.label(x.intervals))) / 2;
        double plotHeight = height - TITLE - BOTTOM;
        canvas.text(left + GAP, top + TITLE - 12, SIZE + 2, Anchor.START, INK, title);
        for (int i = 0; i <= y.intervals; i++) {
            double at = plotTop + plotHeight * (1 - i / (double) y.intervals);
            canvas.line(List.of(new Spot(plotLeft, at), new Spot(plotLeft + plotWidth, at)), 1, GRID);
            canvas.text(plotLeft - GAP, at + 4, SIZE, Anchor.END, INK, y.label(i));
        }
        for (int i = 0; i <= x.intervals; i++) {
            canvas.text(plotLeft + plotWidth * i / x.intervals, plotTop + plotHeight + LEGEND, SIZE, Anchor.MIDDLE, INK,
                    x.label(i));
        }
        canvas.text(plotLeft + plotWidth / 2, plotTop + plotHeight + 2 * LEGEND, SIZE, Anchor.MIDDLE, INK, xTitle);
        double legend = plotTop + LEGEND;
        for (Line line : lines) {
            List<Spot> spots = line.points.stream().map(p -> new Spot(plotLeft + plotWidth * x.place(p.x()),
                    plotTop + plotHeight * (1 - y.place(p.y())))).toList();
            if (spots.size() > 1) {
                canvas.line(spots, 2, line.colour);
            }
            spots.stream().filter(_ -> line.marked || spots.size() == 1)
                    .forEach(s -> canvas.box(s.x() - DOT / 2, s.y() - DOT / 2, DOT, DOT, line.colour));
            if (!spots.isEmpty() && !line.name.isEmpty()) {
                canvas.text(plotLeft + plotWidth, legend, SIZE, Anchor.END, line.colour, line.name);
                legend += LEGEND;
            }
        }
    }

    private double[] values(ToDoubleFunction<Spot> of) {
        return lines.stream().flatMap(line -> line.points.stream()).mapToDouble(of).toArray();
    }

    private static double widest(List<String> labels) {
        return labels.stream().mapToInt(String::length).max().orElse(0) * SIZE * DIGIT;
    }
}
