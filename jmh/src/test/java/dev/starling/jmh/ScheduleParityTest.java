package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Plateau;
import dev.starling.nn.train.Scores;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.ReduceLROnPlateauScheduler;
import org.bytedeco.pytorch.SGD;
import org.bytedeco.pytorch.SGDOptions;
import org.bytedeco.pytorch.TensorVector;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The rates of schedules and those of PyTorch, step by step. Where its interface for C++ has no such scheduler, they
 * are computed as {@code torch.optim.lr_scheduler} does: each rate from the one before.
 */
class ScheduleParityTest {
    private static final double RATE = 0.4;
    private static final double LAST = 0.01;
    private static final List<Case> CASES = List.of(
            new Case("Schedule.constant", Schedule.constant(RATE), () -> (step, before) -> before, 40),
            new Case("Schedule.decay", Schedule.decay(RATE, 7, 0.3), () -> (step, before) -> step % 7 == 0
                    ? before * 0.3 : before, 40),
            new Case("Schedule.decay", Schedule.decay(RATE, 1, 0.9), () -> (step, before) -> before * 0.9, 40),
            new Case("Schedule.multiStep", Schedule.multiStep(RATE, 0.1, 3, 4, 20), () -> (step, before) ->
                    step == 3 || step == 4 || step == 20 ? before * 0.1 : before, 40),
            new Case("Schedule.cosine", Schedule.cosine(RATE, LAST, 30), () -> (step, before) -> LAST
                    + (before - LAST) * (1 + Math.cos(Math.PI * step / 30)) / (1 + Math.cos(Math.PI * (step - 1) / 30)),
                    30),
            new Case("Schedule.cosineRestarts", Schedule.cosineRestarts(RATE, LAST, 5, 2), () -> restarts(5, 2), 80),
            new Case("Schedule.cosineRestarts", Schedule.cosineRestarts(RATE, LAST, 4, 1), () -> restarts(4, 1), 30),
            new Case("Schedule.polynomial", Schedule.polynomial(RATE, 0, 25, 2), () -> polynomial(25, 2), 40),
            new Case("Schedule.polynomial", Schedule.polynomial(RATE, 0, 9, 0.5), () -> polynomial(9, 0.5), 20),
            new Case("Schedule.oneCycle", Schedule.oneCycle(RATE, 100), () -> oneCycle(100), 99),
            new Case("Schedule.oneCycle", Schedule.oneCycle(RATE, 7), () -> oneCycle(7), 6),
            new Case("Schedule.oneCycle", Schedule.oneCycle(RATE, 2), () -> oneCycle(2), 1),
            new Case("schedule.warmUp", Schedule.constant(RATE).warmUp(8), () -> (step, before) -> step > 7 ? before
                    // LinearLR(start_factor=1/8, total_iters=7).
                    : before * (1 + (1 - 1 / 8.0) / (7 / 8.0 + (step - 1) * (1 - 1 / 8.0))), 20));

    /** The rate after a number of steps, from the rate before. */
    private interface Recursion {
        double next(int step, double before);
    }

    private record Case(String row, Schedule ours, Supplier<Recursion> theirs, int steps) { }

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    private static SGD sgd() {
        return new SGD(new TensorVector(Torch.tensor(new float[1], 1)), new SGDOptions(RATE));
    }

    private static double rate(SGD sgd) {
        return sgd.param_groups().get(0).options().get_lr();
    }

    private static Recursion restarts(int first, int growth) {
        int[] state = {0, first};
        return (step, before) -> {
            state[0]++;
            if (state[0] >= state[1]) {
                state[0] -= state[1];
                state[1] *= growth;
            }
            return LAST + (RATE - LAST) * (1 + Math.cos(Math.PI * state[0] / state[1])) / 2;
        };
    }

    private static Recursion polynomial(double total, double power) {
        return (step, before) -> step > total ? before : before * Math.pow((1 - step / total)
                / (1 - (step - 1) / total), power);
    }

    private static Recursion oneCycle(int total) {
        double low = RATE / 25;
        double[] ends = {0.3 * total - 1, total - 1};
        double[][] rates = {{low, RATE}, {RATE, low / 1e4}};
        return (step, before) -> {
            int phase = step <= ends[0] ? 0 : 1;
            double start = phase == 0 ? 0 : ends[0];
            double share = (step - start) / (ends[phase] - start);
            return rates[phase][1] + (rates[phase][0] - rates[phase][1]) / 2 * (1 + Math.cos(Math.PI * share));
        };
    }

    static Stream<Case> schedules() {
        return CASES.stream();
    }

    @Test
    void comparesAllSchedules() throws IOException {
        TreeSet<String> rows = new TreeSet<>(CASES.stream().map(Case::row).toList());
        rows.add("Plateau.of");
        ParityPage.requireAll("Schedules of the learning rate", rows);
    }

    @ParameterizedTest
    @MethodSource("schedules")
    void hasTheRatesOfPyTorch(Case c) {
        try (PointerScope scope = new PointerScope()) {
            Recursion theirs = c.theirs.get();
            double before = c.ours.rate(0);
            if (!c.row.contains("Cycle") && !c.row.contains("warm")) {
                assertThat(before).isEqualTo(RATE);
            }
            if (c.row.contains("Cycle")) {
                before = theirs.next(0, before);
                assertThat(c.ours.rate(0)).isCloseTo(before, within(1e-12));
            }
            for (int step = 1; step <= c.steps; step++) {
                before = theirs.next(step, before);
                assertThat(c.ours.rate(step)).as("after %d steps", step).isCloseTo(before, within(1e-11));
            }
        }
    }

    /** Losses that fall, stagnate, and fall by less than the threshold; one of them is NaN. */
    @Test
    void reducesTheRateOnAPlateauAsPyTorch() {
        SplittableRandom random = new SplittableRandom(5);
        for (int patience : new int[] {0, 1, 3}) {
            try (PointerScope scope = new PointerScope()) {
                SGD sgd = sgd();
                ReduceLROnPlateauScheduler theirs = new ReduceLROnPlateauScheduler(sgd,
                        ReduceLROnPlateauScheduler.SchedulerMode.min, 0.5f, patience, 0.01,
                        ReduceLROnPlateauScheduler.ThresholdMode.rel, 0, new float[] {0.003f}, 1e-8, false);
                Plateau ours = Plateau.of(RATE).factor(0.5).patience(patience).threshold(0.01).lowest(0.003f);
                List<Double> rates = new ArrayList<>();
                double loss = 4;
                for (int epoch = 1; epoch <= 60; epoch++) {
                    loss = random.nextInt(3) == 0 ? loss * (0.97 + 0.03 * random.nextDouble()) : loss;
                    float measured = epoch == 17 ? Float.NaN : (float) loss;
                    theirs.step(measured);
                    ours.epochEnded(null, new EpochReport(epoch, epoch, new Scores(measured, Map.of(), Map.of(), 1),
                            Optional.empty(), 1, 1));
                    assertThat(ours.rate(epoch)).as("epoch %d", epoch).isCloseTo(rate(sgd), within(1e-9));
                    rates.add(ours.rate(epoch));
                }
                assertThat(new TreeSet<>(rates)).hasSizeGreaterThan(3);
            }
        }
    }
}
