package dev.starling.study;

import dev.starling.nn.chart.Canvas;
import dev.starling.nn.chart.Canvas.Anchor;
import dev.starling.nn.chart.Canvas.Spot;
import dev.starling.nn.chart.Picture;
import dev.starling.study.Result.Outcome;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalDouble;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;

/** Draws a result: bars of images per second and of seconds to the goal, and accuracy over seconds of training. */
final class Chart {
    private static final int WIDTH = 1080;
    private static final int LABELS = 330;
    private static final int BARS = 300;
    private static final int GAP = 75;
    private static final int LINE = 26;
    private static final int TOP = 60;
    private static final int CURVES = 300;
    private static final int MARGIN = 20;
    private static final int TICKS = 5;
    private static final String INK = "#333333";
    private static final String GRID = "#e0e0e0";
    private static final List<String> COLOURS = List.of("#333333", "#1f77b4", "#17a2b8", "#d1495b", "#edae49",
            "#66a182", "#8d5a97", "#7f7f7f");

    private final Result result;
    private final List<Outcome> rows;

    private Chart(Result result) {
        this.result = result;
        rows = result.rows();
    }

    /** Returns the chart of a result. */
    static Chart of(Result result) {
        return new Chart(result);
    }

    static boolean isDrawable(Path file) {
        return Picture.isDrawable(file);
    }

    /**
     * Writes the chart in the format that the file's name ends in.
     *
     * @throws dev.starling.nn.data.DataException if the file cannot be written, or this JDK cannot draw text
     */
    void write(Path file) {
        Picture.write(file, WIDTH, height(), this::draw);
    }

    /** Returns the chart as SVG. */
    String svg() {
        return Picture.svg(WIDTH, height(), this::draw);
    }

    private int height() {
        return curvesTop() + CURVES + 3 * MARGIN;
    }

    private int curvesTop() {
        return TOP + rows.size() * LINE + 3 * MARGIN;
    }

    private void draw(Canvas canvas) {
        canvas.box(0, 0, WIDTH, height(), "#ffffff");
        String goal = Table.goal(result);
        bars(canvas, LABELS, "images per second", outcome -> mean(outcome, Run::imagesPerSecond));
        bars(canvas, LABELS + BARS + GAP, "seconds to " + goal, this::secondsToGoal);
        for (int i = 0; i < rows.size(); i++) {
            canvas.text(LABELS - 10, TOP + i * LINE + 17, 13, Anchor.END, INK, rows.get(i).setup().title());
        }
        canvas.text(MARGIN, 22, 13, Anchor.START, INK, "CIFAR-10 on " + result.machine().describe() + "; "
                + result.date());
        curves(canvas);
    }

    private static OptionalDouble mean(Outcome outcome, ToDoubleFunction<Run> value) {
        return outcome.runs().stream().mapToDouble(value).average();
    }

    /** Returns the mean time to the goal; empty unless all runs reached it. */
    private OptionalDouble secondsToGoal(Outcome outcome) {
        boolean all = outcome.runs().stream().allMatch(run -> run.secondsTo(result.goal()).isPresent());
        return all ? mean(outcome, run -> run.secondsTo(result.goal()).getAsDouble()) : OptionalDouble.empty();
    }

    private void bars(Canvas canvas, double left, String title, Function<Outcome, OptionalDouble> value) {
        canvas.text(left, TOP - 10, 14, Anchor.START, INK, title);
        double greatest = rows.stream().map(value).filter(OptionalDouble::isPresent)
                .mapToDouble(OptionalDouble::getAsDouble).max().orElse(1);
        for (int i = 0; i < rows.size(); i++) {
            double top = TOP + i * LINE;
            OptionalDouble one = value.apply(rows.get(i));
            double width = one.orElse(0) / greatest * BARS;
            canvas.box(left, top, width, LINE - 6, colour(i));
            canvas.text(left + width + 5, top + 15, 12, Anchor.START, INK, one.isPresent()
                    ? Table.number(one.getAsDouble()) : rows.get(i).runs().isEmpty() ? "–" : "not reached");
        }
    }

    /** Returns the smallest of 1, 2 or 5 times a power of ten that is not below {@code minimum}. */
    private static double roundStep(double minimum) {
        double power = Math.pow(10, Math.floor(Math.log10(minimum)));
        return minimum <= power ? power : minimum <= 2 * power ? 2 * power
                : minimum <= 5 * power ? 5 * power : 10 * power;
    }

    private String colour(int row) {
        return COLOURS.get(rows.get(row).setup().ordinal() % COLOURS.size());
    }

    private void curves(Canvas canvas) {
        double top = curvesTop();
        double left = LABELS;
        double width = WIDTH - LABELS - MARGIN;
        double longest = rows.stream().flatMap(o -> o.runs().stream()).flatMap(run -> run.points().stream())
                .mapToDouble(Run.Point::seconds).max().orElse(1);
        canvas.text(left, top - 10, 14, Anchor.START, INK, "accuracy on held-out images over seconds of training, "
                + "first run");
        for (int tick = 0; tick <= TICKS; tick++) {
            double y = top + CURVES * (1 - tick / (double) TICKS);
            canvas.line(List.of(new Spot(left, y), new Spot(left + width, y)), 1, GRID);
            canvas.text(left - 6, y + 4, 11, Anchor.END, INK, Table.percent(tick / (double) TICKS, 0));
        }
        double step = roundStep(longest / TICKS);
        for (double at = 0; at <= longest; at += step) {
            canvas.text(left + width * at / longest, top + CURVES + 18, 11, Anchor.MIDDLE, INK,
                    step < 1 ? Table.number(at) : Long.toString(Math.round(at)));
        }
        double goal = top + CURVES * (1 - result.goal());
        canvas.line(List.of(new Spot(left, goal), new Spot(left + width, goal)), 1, "#999999");
        for (int i = 0; i < rows.size(); i++) {
            if (!rows.get(i).runs().isEmpty()) {
                List<Spot> spots = rows.get(i).runs().getFirst().points().stream().map(p -> new Spot(left + width
                        * p.seconds() / longest, top + CURVES * (1 - p.accuracy()))).toList();
                canvas.line(spots, 2, colour(i));
            }
            canvas.box(MARGIN, top + i * LINE, 14, 14, colour(i));
            canvas.text(MARGIN + 20, top + i * LINE + 12, 12, Anchor.START, INK, rows.get(i).setup().label());
        }
    }
}
