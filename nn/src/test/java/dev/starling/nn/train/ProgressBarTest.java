package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.layer.Identity;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.train.ProgressLine.Glyphs;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ProgressBarTest {
    private static final Tensor RESULT = Scope.detached(() -> Tensor.zeros(1));
    private static final Glyphs LINES = Glyphs.of(StandardCharsets.UTF_8, Locale.ROOT);
    private static final List<Metric> METRICS = List.of(new Constant("accuracy", "97.10 %"),
            new Constant("top-5", "99.90 %"), new Constant("mean absolute error", "0.1234"));
    private static final List<Metric> ODD_METRICS = List.of(new Constant("正解率正解率正解率正解率正解率", "97.10 %"),
            new Constant("a name\nof two lines \u001b[2J\u202e and more than a line".repeat(9), "\t1"),
            new Constant("e\u0301\u0302 \ud83d\ude80 \u2764\ufe0f \ud800", "9".repeat(500)), new Constant("", ""));
    private static final double[] ODD_LOSSES = {Double.NaN, Double.POSITIVE_INFINITY, -1e300, 1e-30, 1e30, 0, -0.0,
        99_999.99999, 1e-4};

    /** A metric with a constant text. */
    private record Constant(String name, String text) implements Metric {
        @Override
        public double sumOver(Tensor result, Tensor target) {
            return 0;
        }

        @Override
        public String format(double mean) {
            return text;
        }
    }

    /** Returns a run that has completed {@code done} of 100 steps of the first of three epochs, in 100 ms each. */
    private static Progress run(List<Metric> metrics, int done, double loss) {
        Averages averages = Task.of(new Identity(), Loss.meanSquared(), metrics).averages();
        Progress progress = new Progress(3, averages);
        progress.setEpochSize(100, 10_000);
        progress.startClock();
        for (int i = 0; i < done; i++) {
            step(progress, loss);
        }
        return progress;
    }

    private static void step(Progress progress, double loss) {
        Averages averages = progress.averages;
        averages.add(loss, new BatchResult(RESULT, new Tensor[0], new Tensor[] {RESULT}, new Tensor[] {RESULT}, 100));
        averages.endStep(true);
        progress.batch++;
        progress.step++;
        progress.addStep(100_000_000, 100);
    }

    private static EpochReport report(Progress progress) {
        Scores scores = progress.averages.scores(progress.averages.sums());
        return progress.report(scores, scores);
    }

    private static String line(int room, int metrics) {
        return ProgressLine.of(run(METRICS.subList(0, metrics), 52, 0.12341), "images", LINES, room);
    }

    @Test
    void shortensByImportance() {
        assertThat(line(39, 3)).isEqualTo("epoch 1/3   52 %  loss 0.1234  ETA 0:25");
        assertThat(line(38, 3)).isEqualTo("1/3   52 %  loss 0.1234  ETA 0:25");
        assertThat(line(59, 3)).isEqualTo("epoch 1/3   52 %  loss 0.1234  accuracy 97.10 %  ETA 0:25");
        assertThat(line(79, 1)).isEqualTo(
                "epoch 1/3  ━━━━       52 %  loss 0.1234  accuracy 97.10 %  1,000/s  ETA 0:25");
        assertThat(line(79, 2)).isEqualTo(
                "epoch 1/3   52 %  loss 0.1234  accuracy 97.10 %  top-5 99.90 %  ETA 0:25");
        assertThat(line(119, 3)).isEqualTo("epoch 1/3  ━━━━       52 %  loss 0.1234  accuracy 97.10 %  top-5 99.90 %  "
                + "mean absolute error 0.1234  1,000/s  ETA 0:25");
        assertThat(line(93, 3)).isEqualTo("epoch 1/3   52 %  loss 0.1234  accuracy 97.10 %  top-5 99.90 %  "
                + "mean absolu… 0.1234  ETA 0:25");
        assertThat(line(200, 3)).isEqualTo("epoch 1/3  " + "━".repeat(12) + " ".repeat(12) + "   52 %  loss 0.1234  "
                + "accuracy 97.10 %  top-5 99.90 %  mean absolute error 0.1234  1,000 images/s  ETA 0:25");
    }

    @Test
    void fitsEveryWidth() {
        for (double loss : ODD_LOSSES) {
            for (long ns : new long[] {1, 20_000_000_000L, Long.MAX_VALUE / 400}) {
                Progress progress = run(ODD_METRICS, 3, loss);
                progress.epoch = 999_999_997;
                progress.setEpochSize(Integer.MAX_VALUE, Long.MAX_VALUE);
                IntStream.range(0, 4).forEach(i -> progress.addStep(ns, 1));
                for (int room = 39; room < 200; room += room < 60 ? 1 : 7) {
                    String line = ProgressLine.of(progress, "картинок в обработке 画像", LINES, room);
                    TerminalScreen screen = new TerminalScreen(room + 1);
                    screen.stream().print(line);
                    assertThat(screen.reachedLastColumn()).as(line).isFalse();
                    assertThat(screen.rows()).as(line).hasSize(1);
                    assertThat(line).contains("0 %").doesNotContain("\u202e");
                }
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {40, 41, 60, 79, 80, 81, 100, 120, 200})
    void redrawsInPlaceAndPrintsASummaryOfEachEpoch(int columns) {
        for (int metrics = 0; metrics <= METRICS.size(); metrics++) {
            TerminalScreen screen = new TerminalScreen(columns);
            ProgressBar bar = ProgressBar.on(screen.stream(), true, screen::columns).unit("images");
            Progress progress = run(METRICS.subList(0, metrics), 0, 0);
            bar.started(progress);
            int above = 0;
            for (; progress.epoch < 3; progress.epoch++) {
                for (progress.batch = 0; progress.batch < 100;) {
                    step(progress, 1.0 / (1 + progress.step));
                    if (progress.batch % 10 != 0) {
                        continue;
                    }
                    bar.draw(progress);
                    assertThat(screen.rows()).hasSize(above + 1);
                }
                assertThat(screen.rows().getLast()).contains("100 %");
                bar.epochEnded(progress, report(progress));
                assertThat(screen.rows().subList(above, screen.rows().size()).getFirst())
                        .startsWith("epoch " + (progress.epoch + 1) + "/3  loss ");
                above = screen.rows().size() - 1;
            }
            bar.ended(progress);
            assertThat(screen.reachedLastColumn()).isFalse();
            assertThat(screen.clearedScreens()).isZero();
            assertThat(screen.rows().stream().filter(row -> row.contains("held-out loss"))).hasSize(3);
            assertThat(screen.rows().stream().filter(row -> row.contains("ETA"))).isEmpty();
            assertThat(screen.rows().getLast()).isEmpty();
        }
    }

    @Test
    void followsATerminalThatIsResized() {
        TerminalScreen screen = new TerminalScreen(120);
        ProgressBar bar = ProgressBar.on(screen.stream(), true, screen::columns);
        Progress progress = run(METRICS, 50, 0.5);
        screen.stream().println("before");
        bar.started(progress);
        for (int columns : new int[] {120, 60, 200, 40, 41, 100, 40, 80}) {
            bar.draw(progress);
            screen.resize(columns);
            bar.draw(progress);
            assertThat(screen.rows()).as("at " + columns).hasSize(3);
            assertThat(screen.rows().getFirst()).isEqualTo("before");
            assertThat(screen.reachedLastColumn()).isFalse();
        }
        bar.ended(progress);
        assertThat(screen.rows()).hasSize(4);
        bar.started(progress);
        bar.draw(progress);
        bar.ended(progress);
        assertThat(screen.rows()).as("the same bar for another run").hasSize(6);
    }

    @Test
    void cutsOffInsteadOfWrappingIfTheWidthIsWrong() {
        TerminalScreen screen = new TerminalScreen(40);
        ProgressBar bar = ProgressBar.on(screen.stream(), true, () -> 80);
        Progress progress = run(METRICS, 0, 0);
        for (int i = 0; i < 20; i++) {
            step(progress, 1);
            bar.draw(progress);
        }
        assertThat(screen.rows()).hasSize(1);
    }

    @Test
    void foldsSummariesBetweenTheirParts() {
        TerminalScreen screen = new TerminalScreen(80);
        ProgressBar bar = ProgressBar.on(screen.stream(), true, screen::columns).unit("images");
        Progress progress = run(METRICS.subList(0, 1), 100, 0.25);
        bar.epochEnded(progress, report(progress));
        assertThat(screen.rows()).containsExactly("epoch 1/3  loss 0.2500  accuracy 97.10 %",
                "  held-out loss 0.2500  accuracy 97.10 %  │ 1,000 images/s  0:10", "");
        screen.resize(40);
        bar.epochEnded(progress, report(progress));
        assertThat(screen.rows().subList(3, 8)).containsExactly("epoch 1/3  loss 0.2500",
                "  accuracy 97.10 %", "  held-out loss 0.2500", "  accuracy 97.10 %", "  1,000 images/s  0:10");
    }

    @Test
    void writesPlainLinesToAFile() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ProgressBar bar = ProgressBar.on(new PrintStream(bytes, true, StandardCharsets.UTF_8), false).unit("images");
        Progress progress = run(METRICS, 0, 0);
        bar.started(progress);
        for (int i = 0; i < 100; i++) {
            step(progress, 0.25);
            bar.stepEnded(progress);
            if (i == 49) {
                bar.draw(progress);
            }
        }
        bar.epochEnded(progress, report(progress));
        bar.ended(progress);
        String scores = "loss 0.2500  accuracy 97.10 %  top-5 99.90 %  mean absolute error 0.1234";
        assertThat(bytes.toString(StandardCharsets.UTF_8).lines()).containsExactly(
                "epoch 1/3   50 %  " + scores + "  1,000 images/s  ETA 0:25",
                "epoch 1/3  " + scores + "  │ held-out " + scores + "  │ 1,000 images/s  0:10");
    }

    @Test
    void usesPlainCharactersIfOthersMayTakeTwoColumns() {
        Glyphs plain = Glyphs.of(StandardCharsets.US_ASCII, Locale.ROOT);
        assertThat(plain.filled() + plain.divider() + plain.more()).isEqualTo("=|~");
        assertThat(Glyphs.of(StandardCharsets.UTF_8, Locale.JAPAN)).isEqualTo(plain);
        assertThat(Glyphs.of(Charset.forName("IBM437"), Locale.GERMANY)).isEqualTo(plain);
        assertThat(LINES).isNotEqualTo(plain);
    }

    @Test
    void showsTime() {
        assertThat(ProgressLine.clock(5)).isEqualTo("0:05");
        assertThat(ProgressLine.clock(754)).isEqualTo("12:34");
        assertThat(ProgressLine.clock(3 * 3600 + 62)).isEqualTo("3:01:02");
        assertThat(ProgressLine.clock(5.5 * 86400)).isEqualTo("5 d");
        assertThat(ProgressLine.clock(1e30)).isEqualTo("> 999 d");
        assertThat(ProgressLine.clock(Double.POSITIVE_INFINITY)).isEqualTo("?");
    }

    @Test
    void showsNumbers() {
        assertThat(List.of(0.12345, 12345.6, 1e5, 1e-30, 5e-5, 0.0).stream().map(ProgressLine::number))
                .containsExactly("0.1235", "12345.6000", "1.000e+05", "1.000e-30", "0.0001", "0.0000");
        assertThat(List.of(1e-30, 9.94, 1234.5, 9_999_999.0, 1e12, Double.NaN).stream().map(ProgressLine::rate))
                .containsExactly("0.0", "9.9", "1,235", "9,999,999", "1.0e+12", "NaN");
    }

    @Test
    void reportsTheRateOfTheLastSeconds() throws InterruptedException {
        Progress progress = new Progress(2, new Averages(List.of()));
        progress.setEpochSize(10, 100);
        assertThat(progress.itemsPerSecond()).isZero();
        progress.startClock();
        long start = System.nanoTime();
        for (int i = 0; i < 5; i++) {
            Thread.sleep(20);
            progress.batch++;
            progress.onStep(10);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        assertThat(progress.itemsPerSecond()).isBetween(0.5 * 50 / seconds, 2 * 50 / seconds);
    }

    /** Returns the estimates of a run at each step: the elapsed time and the estimated time left, which may be NaN. */
    private static List<double[]> estimates(double[] seconds) {
        Progress progress = new Progress(1, new Averages(List.of()));
        progress.setEpochSize(seconds.length, seconds.length * 10L);
        List<double[]> estimates = new ArrayList<>();
        double elapsed = 0;
        for (double each : seconds) {
            progress.addStep((long) (each * 1e9), 10);
            progress.batch++;
            elapsed += each;
            estimates.add(new double[] {elapsed, progress.secondsLeft()});
        }
        return estimates;
    }

    @Test
    void excludesWarmUpFromTheTimeLeft() {
        // A second of loading, then steps of 300 ms at first and of 20 ms from the third second on.
        double[] steps = IntStream.range(0, 2000).mapToDouble(i -> i == 0 ? 1 : Math.max(0.02, 0.3 / (1 + i / 4.0)))
                .toArray();
        double total = IntStream.range(0, steps.length).mapToDouble(i -> steps[i]).sum();
        List<double[]> estimates = estimates(steps);
        assertThat(estimates.getFirst()[1]).isNaN();
        List<double[]> shown = estimates.stream().filter(each -> !Double.isNaN(each[1])).toList();
        assertThat(shown.getFirst()[0]).as("seconds until there is an estimate").isBetween(2.0, 12.0);
        assertThat(shown).allSatisfy(each -> {
            double left = total - each[0];
            assertThat(each[1]).isBetween(0.8 * left - 0.1, 1.35 * left + 0.1);
        });
    }

    @Test
    void adjustsTheTimeLeftIfTheMachineSlowsDown() {
        double[] steps = IntStream.range(0, 3000).mapToDouble(i -> i < 1000 ? 0.1 : 0.2).toArray();
        List<double[]> estimates = estimates(steps);
        assertThat(estimates.get(999)[1]).isBetween(199.0, 201.0);
        assertThat(estimates.get(1900)[1]).as("three minutes later").isBetween(0.9 * 1099 * 0.2, 1099 * 0.2 + 0.1);
    }

    @Test
    void estimatesTheSameTimeLeftAcrossTheEndOfAnEpoch() {
        Progress progress = run(List.of(), 99, 1);
        double before = progress.secondsLeft();
        step(progress, 1);
        progress.epoch++;
        progress.batch = 0;
        progress.startClock();
        step(progress, 1);
        assertThat(progress.secondsLeft()).isBetween(before - 0.3, before + 0.3);
    }
}
