package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.profile.Profiling;
import dev.starling.tensor.profile.Profile;
import dev.starling.tensor.profile.Profile.Total;
import dev.starling.tensor.profile.Profiler;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Compares the figures of a profile of a training with figures that were counted independently. */
class ProfileTest {
    private static final int STEPS = 25;

    @TempDir
    Path directory;

    private static void train(boolean captured) {
        try (Sequential model = Sequential.of(Linear.of(20, 30, Generator.seeded(1)), new Relu(),
                Linear.of(30, 4, Generator.seeded(2)));
                Optimizer optimizer = Sgd.over(model).rate(0.1).build(); Scope scope = Scope.open()) {
            TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(3));
            if (captured) {
                step.captured();
            }
            Tensor x = Generator.seeded(4).normal(16, 20);
            Tensor y = Tensor.of(new long[16]);
            for (int i = 0; i < STEPS; i++) {
                step.run(x, y);
            }
            step.close();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void countsTheOperationsOfATraining(boolean captured) throws IOException {
        Path file = directory.resolve("run.jfr");
        long before = System.nanoTime();
        try (Profiler profiler = Profiler.start(file)) {
            train(captured);
        }
        Profile profile = Profile.read(file);
        assertThat(profile.duration()).isBetween(Duration.ofNanos(1), Duration.ofNanos(System.nanoTime() - before));
        Map<String, Long> calls = new HashMap<>();
        profile.operations().forEach(t -> calls.merge(t.name(), t.calls(), Long::sum));
        // Two layers, four parameters that one call updates, one loss.
        assertThat(calls).containsEntry("linear", 2L * STEPS).containsEntry("4 × sgd", (long) STEPS)
                .containsEntry("crossEntropy", (long) STEPS);
        assertThat(profile.operations().stream().mapToLong(Total::amount).sum()).isPositive();
        assertThat(profile.highWater()).containsEntry("cpu", Device.cpu().memory().peak());
    }

    /** The expected counts come from a recorder, which sees operations at the same place as the profiler. */
    @Test
    void countsEveryOperationOnce() throws IOException {
        Map<String, Long> expected = new HashMap<>();
        Path file = directory.resolve("run.jfr");
        try (Profiler profiler = Profiler.start(file); Scope scope = Scope.open()) {
            Recorder.with((Op op, Tensor[] _, Tensor[] _) -> expected.merge(op.name(), 1L, Long::sum), () -> {
                Tensor x = Tensor.ones(3, 4);
                for (int i = 0; i < 10; i++) {
                    x = x.add(1).mul(x).reshape(12).sum().add(Tensor.ones(3, 4));
                }
                return x;
            });
        }
        Map<String, Long> calls = new HashMap<>();
        Profile.read(file).operations().forEach(t -> calls.merge(t.name(), t.calls(), Long::sum));
        assertThat(calls).isEqualTo(expected).hasSizeGreaterThan(3);
    }

    @Test
    void showsTheFiguresOnThePage() throws IOException {
        Path recording = directory.resolve("run.jfr");
        try (Profiler profiler = Profiler.start(recording)) {
            train(false);
        }
        Profile profile = Profile.read(recording);
        Path page = directory.resolve("run.html");
        profile.write(page);
        String html = Files.readString(page);
        for (Total t : profile.operations()) {
            Matcher row = Pattern.compile("<tr><td>" + Pattern.quote(t.name()) + "<td>" + t.device()
                    + "<td>(\\d+)<td>([\\d.]+) (µs|ms|s)<").matcher(html);
            assertThat(row.find()).as(t.name()).isTrue();
            assertThat(Long.parseLong(row.group(1))).isEqualTo(t.calls());
            double unit = Map.of("µs", 1e3, "ms", 1e6, "s", 1e9).get(row.group(3));
            assertThat(Double.parseDouble(row.group(2)) * unit).isBetween(t.amount() * 0.99 - 100,
                    t.amount() * 1.01 + 100);
        }
        long operations = profile.operations().stream().mapToLong(Total::calls).sum();
        assertThat(html).contains(String.format("%,d operations in", operations)).contains("Memory of cpu")
                .contains("stroke-dasharray").doesNotContain("http");
        // The columns of the overview contain the share of every operation; 300 operations are also drawn one by one.
        assertThat(Pattern.compile("<title>").matcher(html).results().count()).isEqualTo(1 + Math.min(300, operations));
    }

    @Test
    void countsTheTimeOfAnOperationWithinAnotherOnce() throws Exception {
        Path recording = directory.resolve("run.jfr");
        Spec spec = new Spec(DType.F32, Shape.of(1), Device.cpu());
        try (Profiler profiler = Profiler.start(recording)) {
            OperationEvent outer = OperationEvent.started();
            OperationEvent inner = OperationEvent.started();
            Thread.sleep(20);
            inner.done("inner", spec);
            outer.done("outer", spec);
        }
        Path page = directory.resolve("run.html");
        Profile.read(recording).write(page);
        Matcher times = Pattern.compile("2 operations in (.*); they kept the host busy for (.*)\\.</p>").matcher(
                Files.readString(page));
        assertThat(times.find()).isTrue();
        assertThat(times.group(2)).isEqualTo(times.group(1));
    }

    @Test
    void allocatesNothingIfNothingIsRecorded() {
        assertThat(Profiling.isOn()).isFalse();
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        boolean any = false;
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int i = 0; i < 100_000; i++) {
            any |= Profiling.isOn();
        }
        assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(1000);
        assertThat(any).isFalse();
    }
}
