package dev.starling.tensor.fuzz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Unary;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Runs {@link OpFuzz} over fixed seeds and over many, and tests that it finds planted defects. */
class OpFuzzTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final int SHORT = 2500;

    private static void passes(long first, long count) throws Exception {
        FuzzRunner.Outcome outcome = new FuzzRunner(OpFuzz.class, DEADLINE, "-Xmx256m").run(first, count, false);
        assertEquals(count, outcome.cases());
        assertEquals(Map.of(), outcome.findings());
    }

    @Test
    void fixedSeedsFindNothing() throws Exception {
        passes(0, SHORT);
    }

    /** Properties {@code fuzz.first} and {@code fuzz.count} set the seeds. */
    @Test
    @Tag("stress")
    void manySeedsFindNothing() throws Exception {
        passes(Long.getLong("fuzz.first", SHORT), Long.getLong("fuzz.count", 1_000_000));
    }

    @Test
    void aSeedIsOneCase() {
        for (long seed = 0; seed < 200; seed++) {
            Choices first = Choices.seeded(seed);
            String text = new OpCase(first).toString();
            assertEquals(text, new OpCase(Choices.seeded(seed)).toString());
            assertEquals(text, new OpCase(Choices.of(first.drawn())).toString());
        }
    }

    @Test
    void detectsWrongValues() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {1, 2, 3, Float.NaN}, 2, 2);
            Tensor y = x.exp();
            assertNull(Oracle.difference(Unary.EXP, new Tensor[] {x}, new Tensor[] {y}));
            assertNotNull(Oracle.difference(Unary.EXP, new Tensor[] {x}, new Tensor[] {y.mul(1 + 1e-5)}));
            assertNotNull(Oracle.difference(Unary.EXP, new Tensor[] {x}, new Tensor[] {y.to(DType.F64)}));
            assertNotNull(Oracle.difference(new Movement.Copy(), new Tensor[] {x}, new Tensor[] {x.t()}));
            Tensor number = Tensor.ones(2, 2);
            assertNotNull(Oracle.difference(Unary.EXP, new Tensor[] {x}, new Tensor[] {number}));
            Tensor nan = Tensor.full(DType.F32, Double.NaN, 2, 2);
            assertNotNull(Oracle.difference(new Contraction.MatMul(), new Tensor[] {number, number},
                    new Tensor[] {nan}));
        }
    }

    @Test
    void detectsMemoryThatAKernelDoesNotWrite() {
        Watch watch = new Watch(0xFF, false);
        try (Scope scope = Scope.open()) {
            Tensor like = Tensor.zeros(3);
            Tensor t = Interceptor.with(watch, () -> Storage.allocate(like.spec()));
            assertTrue(Double.isNaN(t.toDoubles()[2]));
            assertEquals(Device.cpu(), t.device());
        }
    }

    /** Fails in different ways at some seeds. */
    static final class Broken implements Fuzz {
        @Override
        public String run(long seed) {
            if (seed == 3) {
                Runtime.getRuntime().halt(7);
            }
            while (seed == 5) {
                Thread.onSpinWait();
            }
            return seed == 8 ? "wrong\nreally" : null;
        }
    }

    @Test
    void crashesAndHangsAreFindingsAndTheRunContinues() throws Exception {
        FuzzRunner.Outcome outcome = new FuzzRunner(Broken.class, Duration.ofSeconds(2)).run(0, 10, false);
        assertEquals(java.util.Set.of(3L, 5L, 8L), outcome.findings().keySet());
        assertTrue(outcome.findings().get(3L).startsWith("the JVM ended with 7"));
        assertTrue(outcome.findings().get(5L).startsWith("the case took more than 2 s"));
        assertEquals("wrong\nreally", outcome.findings().get(8L));
    }

    @Test
    void findingsShrink() {
        Choices c = Choices.seeded(1);
        Finding f = Shrinker.shrink(k -> sums(k) > 10 ? new Finding("sum", "" + sums) : null, many(c),
                new Finding("sum", "first"));
        assertEquals("11", f.text());
    }

    private int sums;

    private static int[] many(Choices c) {
        for (int i = 0; i < 50; i++) {
            c.next(100);
        }
        return c.drawn();
    }

    private int sums(Choices c) {
        sums = 0;
        for (int n = c.next(60); n > 0; n--) {
            sums += c.next(100);
        }
        return sums;
    }
}
