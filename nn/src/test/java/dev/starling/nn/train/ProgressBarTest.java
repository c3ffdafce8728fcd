package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProgressBarTest {
    private static String shown(boolean interactive, int steps, long pauseMs) throws InterruptedException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ProgressBar bar = ProgressBar.on(new PrintStream(bytes, true, StandardCharsets.UTF_8), interactive)
                .unit("images");
        Averages averages = new Averages(List.of());
        Progress progress = new Progress(3, averages);
        progress.measure(10, 100);
        progress.startClock();
        bar.started(progress);
        for (int i = 0; i < steps; i++) {
            Thread.sleep(pauseMs);
            averages.add(0.25, null, null, 10);
            averages.endStep(true);
            progress.batch++;
            progress.stepped(10);
            bar.stepEnded(progress);
        }
        bar.epochEnded(progress, progress.report(averages.scores(averages.sums()), null));
        bar.ended(progress);
        return bytes.toString(StandardCharsets.UTF_8);
    }

    @Test
    void aTerminalSeesOneLineDrawnAnew() throws InterruptedException {
        String text = shown(true, 10, 30);
        assertThat(text).contains("\r\u001b[Kepoch 1/3  ").contains("loss 0.2500").contains("images/s  ETA 0:0");
        assertThat(text).startsWith("\r");
        assertThat(text.chars().filter(c -> c == '\n')).hasSize(1);
    }

    @Test
    void aFileSeesPlainLinesNowAndThen() throws InterruptedException {
        String text = shown(false, 10, 5);
        assertThat(text.lines()).hasSize(1);
        assertThat(text).startsWith("epoch 1/3  loss 0.2500").doesNotContain("\r").doesNotContain("\u001b")
                .contains("images/s");
    }

    @Test
    void tellsTime() {
        assertThat(ProgressBar.clock(5)).isEqualTo("0:05");
        assertThat(ProgressBar.clock(754)).isEqualTo("12:34");
        assertThat(ProgressBar.clock(3 * 3600 + 62)).isEqualTo("3:01:02");
        assertThat(ProgressBar.clock(Double.POSITIVE_INFINITY)).isEqualTo("?");
    }

    @Test
    void theRateIsThatOfTheLastSeconds() throws InterruptedException {
        Progress progress = new Progress(2, new Averages(List.of()));
        progress.measure(10, 100);
        assertThat(progress.itemsPerSecond()).isZero();
        progress.startClock();
        long start = System.nanoTime();
        for (int i = 0; i < 5; i++) {
            Thread.sleep(20);
            progress.batch++;
            progress.stepped(10);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        assertThat(progress.itemsPerSecond()).isBetween(0.5 * 50 / seconds, 2 * 50 / seconds);
        assertThat(progress.secondsLeft()).isBetween(0.4 * 3 * seconds, 2.5 * 3 * seconds);
    }
}
