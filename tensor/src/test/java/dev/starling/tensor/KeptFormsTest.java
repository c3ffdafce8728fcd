package dev.starling.tensor;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.program.Program;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.Form;
import dev.starling.tensor.spi.MemoryUse;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class KeptFormsTest {
    private static final Form.Key KEY = new Form.Key(0, new long[] {1}, new long[] {2});
    private final Scope scope = Scope.open("test");

    @BeforeEach
    void oneThread() {
        Parallel.setThreads(1);
    }

    @AfterEach
    void close() {
        scope.close();
        Parallel.setThreads(Runtime.getRuntime().availableProcessors());
    }

    // ---- the forms of one storage ----

    @Test
    void keepsAFormUntilTheElementsChange() {
        Tensor w = Tensor.of(new float[] {1, 2, 3});
        Storage storage = w.storage();
        assertFalse(storage.isReused(KEY, 1));
        assertTrue(storage.isReused(KEY, 1));
        long before = live();
        long address = form(w);
        assertEquals(1f, at(address));
        assertTrue(live() > before);
        assertEquals(address, form(w));
        Tensor.apply(new Update.Assign(), w.reshape(3, 1).narrow(0, 0, 1), Tensor.of(new float[] {7}, 1, 1));
        assertFalse(storage.isReused(KEY, 1));
        assertTrue(live() <= before + 128, "the form of the old elements is still there");
        assertEquals(7f, at(form(w)));
        assertFalse(storage.isReused(new Form.Key(1, new long[] {1}, new long[] {2}), 1));
        assertTrue(storage.isReused(KEY, 1));
    }

    @Test
    void freesFormsWithTheMemory() {
        long before = live();
        try (Scope inner = Scope.open("inner")) {
            form(Tensor.of(new float[] {1, 2}));
            Tensor closed = Tensor.of(new float[] {1, 2});
            form(closed);
            closed.close();
            assertNull(closed.storage().form(KEY, 4, to -> { }));
            Tensor left = Scope.release(Tensor.of(new float[] {3}));
            form(left);
            left.close();
        }
        assertEquals(before, live());
    }

    @Test
    void theCollectorFreesFormsOfUnownedMemory() throws InterruptedException {
        long before = live();
        Scope.detached(() -> {
            form(Tensor.of(new float[] {5}));
            return Tensor.scalar(0);
        }).close();
        leak();
        for (int i = 0; i < 200 && live() > before; i++) {
            System.gc();
            Thread.sleep(5);
        }
        // The collector may free memory of earlier tests, too.
        assertTrue(live() <= before);
    }

    private static void leak() {
        form(Scope.release(Tensor.of(new float[] {5})));
    }

    @Test
    void aFormLivesUntilItsLastUserClosesIt() {
        Tensor w = Tensor.of(new float[] {4});
        Form used = w.storage().form(KEY, 4, to -> set(to, 4));
        assertNotNull(used);
        long before = live();
        w.close();
        assertEquals(4f, at(used.address()));
        used.close();
        assertTrue(live() < before - 32);
    }

    @Test
    void memoryThatMayChangeUnseenHasNone() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor wrapped = Tensor.wrap(arena.allocate(64, 64), DType.F32, 16);
            assertFalse(wrapped.storage().isReused(KEY, 1));
            assertFalse(wrapped.storage().isReused(KEY, 1));
            assertNull(wrapped.storage().form(KEY, 4, to -> { }));
        }
        Tensor w = Tensor.of(new float[] {4});
        form(w);
        assertTrue(w.readOnlySegment().isReadOnly());
        form(w);
        w.segment().set(ValueLayout.JAVA_FLOAT, 0, 8);
        assertNull(w.storage().form(KEY, 4, to -> { }));
        Tensor lender = Tensor.of(new float[] {4});
        Tensor lent = lender.storage().lend(lender.spec(), lender.strides());
        assertNull(lender.storage().form(KEY, 4, to -> { }));
        assertNull(lent.storage().form(KEY, 4, to -> { }));
    }

    @Test
    void aFailedFormIsMadeAgain() {
        Tensor w = Tensor.of(new float[] {4});
        long before = live();
        try {
            w.storage().form(KEY, 4, to -> {
                throw new IllegalStateException("expected");
            });
        } catch (IllegalStateException expected) {
            assertEquals(before, live());
        }
        assertEquals(4f, at(form(w)));
    }

    @Test
    void keepsABoundedNumber() {
        Tensor w = Tensor.of(new float[] {4});
        long before = live();
        for (int i = 0; i < 1000; i++) {
            Form form = w.storage().form(new Form.Key(i, new long[0], new long[0]), 64, to -> { });
            assertNotNull(form);
            form.close();
        }
        assertTrue(live() - before <= 32 * 128, "kept " + (live() - before) + " bytes");
    }

    /** A part of a run sees one thread, although others have parts of the run, too. */
    @Test
    void keepsAFormForEachPartOfARunOnManyThreads() {
        Parallel.setThreads(40);
        Tensor w = Tensor.of(new float[] {4});
        AtomicInteger made = new AtomicInteger();
        for (int run = 0; run < 2; run++) {
            Parallel.withThreads(2, () -> {
                Parallel.forRange(40, 1, (from, to) -> {
                    for (long i = from; i < to; i++) {
                        Form form = w.storage().form(new Form.Key(i, new long[0], new long[0]), 64,
                                address -> made.incrementAndGet());
                        assertNotNull(form);
                        form.close();
                    }
                });
                return made;
            });
        }
        assertEquals(40, made.get());
    }

    @Test
    void makesAFormOnceThereIsMemoryForIt() {
        Shortage memory = new Shortage();
        KeptForms forms = new KeptForms(memory);
        assertNull(forms.use(KEY, 1, 4, to -> set(to, 4)));
        assertNull(forms.use(KEY, 1, 4, to -> set(to, 4)));
        assertEquals(2, memory.refused.get());
        memory.isOver = true;
        Form form = forms.use(KEY, 1, 4, to -> set(to, 4));
        assertNotNull(form);
        form.close();
        assertNotNull(forms.find(KEY, 1));
        form.close();
        forms.close();
    }

    /** Makes or finds the form of the first element; returns its address. */
    private static long form(Tensor w) {
        try (Form form = w.storage().form(KEY, 4, to -> set(to, at(w.address())))) {
            assertNotNull(form);
            return form.address();
        }
    }

    private static float at(long address) {
        return HostMemory.getFloat(address);
    }

    private static void set(long address, float value) {
        HostMemory.putFloat(address, value);
    }

    private static long live() {
        return Device.cpu().memory().live();
    }

    // ---- kernels ----

    /** An operation on a weight whose kernel keeps forms. */
    private record Kernel(long[] shape, UnaryOperator<Tensor> op) {
        Tensor weight(Generator random) {
            return random.normal(shape);
        }
    }

    private static List<Kernel> kernels(Generator random) {
        Tensor image = random.normal(2, 32, 13, 13);
        Tensor small = random.normal(1, 32, 9, 9);
        Tensor rows = random.normal(9, 160);
        Tensor wide = random.normal(9, 530);
        Tensor steps = random.normal(5, 3, 8);
        Tensor input = random.normal(4 * 96, 8);
        Convolution.Geometry same = Convolution.Geometry.of(2, 1, 1, 1, 1);
        return List.of(
                new Kernel(new long[] {48, 32, 3, 3}, w -> Convolutions.conv2d(image, w, null, 1, 1, 1, 1)),
                new Kernel(new long[] {48, 32, 3, 3}, w -> Convolutions.conv2d(image, w, null, 2, 1, 1, 1)),
                new Kernel(new long[] {64, 32, 3, 3}, w -> Convolutions.conv2d(small, w, null, 1, 1, 1, 1)),
                new Kernel(new long[] {32, 16, 3, 3}, w -> Tensor.compute(
                        new Convolution.ConvInputGradient(same, Shape.of(1, 16, 9, 9)), small, w)),
                new Kernel(new long[] {32, 32, 3, 3}, w -> Tensor.compute(
                        new Convolution.ConvInputGradient(same, Shape.of(2, 32, 13, 13)), image, w)),
                new Kernel(new long[] {130, 160}, w -> Functions.linear(rows, w, null)),
                new Kernel(new long[] {160, 130}, rows::matmul),
                new Kernel(new long[] {520, 530}, w -> Functions.linear(wide, w, null)),
                new Kernel(new long[] {530, 520}, wide::matmul),
                new Kernel(new long[] {4 * 96, 96}, w -> Recurrences.lstm(steps, null, null,
                        new Recurrences.Weights(input, w, null, null), false, null).y()));
    }

    @Test
    void neverServesAStaleForm() {
        for (int threads = 1; threads <= 2; threads++) {
            Parallel.setThreads(threads);
            for (int seed = 0; seed < 3; seed++) {
                try (Scope run = Scope.open("run")) {
                    fuzz(new Random(seed));
                }
            }
        }
    }

    private void fuzz(Random random) {
        Generator numbers = Generator.seeded(random.nextLong());
        List<Kernel> kernels = kernels(numbers);
        List<Tensor> weights = new ArrayList<>();
        kernels.forEach(kernel -> weights.add(detached(kernel, numbers)));
        List<Program> programs = new ArrayList<>();
        Tensor one = Tensor.ones(1);
        for (int i = 0; i < kernels.size(); i++) {
            programs.add(program(kernels.get(i), weights.get(i), one));
        }
        for (int step = 0; step < 60; step++) {
            try (Scope inner = Scope.open("step")) {
                int i = random.nextInt(kernels.size());
                Kernel kernel = kernels.get(i);
                Tensor w = weights.get(i);
                if (random.nextInt(20) == 0) {
                    programs.get(i).close();
                    w.close();
                    w = detached(kernel, numbers);
                    weights.set(i, w);
                    programs.set(i, program(kernel, w, one));
                } else if (random.nextInt(2) == 0) {
                    change(random.nextInt(17) / 4, w, numbers);
                }
                float[] fresh = kernel.op.apply(w.copy()).toFloats();
                for (int use = random.nextInt(8); use >= 0; use--) {
                    Tensor kept = random.nextBoolean() ? kernel.op.apply(w) : programs.get(i).run(one)[0];
                    assertArrayEquals(fresh, kept.toFloats(), "kernel " + i + " at step " + step);
                }
            }
        }
        programs.forEach(Program::close);
        weights.forEach(Tensor::close);
    }

    private static Tensor detached(Kernel kernel, Generator numbers) {
        return Scope.detached(() -> kernel.weight(numbers));
    }

    private static Program program(Kernel kernel, Tensor w, Tensor one) {
        return Program.capture(null, in -> new Tensor[] {kernel.op.apply(w).mul(in[0])}, one).program();
    }

    private static void change(int how, Tensor w, Generator numbers) {
        switch (how) {
            case 0 -> Tensor.apply(new Update.Assign(), w, numbers.normal(w.shape().dims()));
            case 1 -> {
                Tensor row = w.narrow(0, 1, 1);
                Tensor.apply(new Update.Assign(), row, numbers.normal(row.shape().dims()));
            }
            case 2 -> Tensor.apply(new Update.Blend(0.5, 0.5), w, numbers.normal(w.shape().dims()));
            case 3 -> {
                Tensor flat = w.reshape(w.count());
                Tensor.apply(new Update.Assign(), flat, numbers.normal(flat.shape().dims()));
            }
            default -> w.segment().setAtIndex(ValueLayout.JAVA_FLOAT, 3, 42);
        }
    }

    @Test
    void computesWithoutFormsWhileThereIsNoMemoryForThem() throws Exception {
        Generator numbers = Generator.seeded(6);
        Field forms = Storage.class.getDeclaredField("forms");
        forms.setAccessible(true);
        Shortage memory = new Shortage();
        for (Kernel kernel : kernels(numbers)) {
            Tensor w = kernel.weight(numbers);
            float[] expected = kernel.op.apply(w.copy()).toFloats();
            forms.set(w.storage(), new KeptForms(memory));
            for (int use = 0; use < 5; use++) {
                assertArrayEquals(expected, kernel.op.apply(w).toFloats());
            }
        }
        assertTrue(memory.refused.get() > 0);
    }

    /** Memory that is exhausted until it is over. */
    private static final class Shortage implements Allocator {
        private final AtomicInteger refused = new AtomicInteger();
        private boolean isOver;

        @Override
        public Block allocate(long bytes) {
            if (isOver) {
                return Device.cpu().backend().memory().allocate(bytes);
            }
            refused.incrementAndGet();
            throw new TensorException(TensorException.Problem.MEMORY, "allocate", List.of(), "expected", "none");
        }

        @Override
        public void free(Block block) {
            Device.cpu().backend().memory().free(block);
        }

        @Override
        public void trim() {
        }

        @Override
        public MemoryUse use() {
            return Device.cpu().memory();
        }
    }

    @Test
    void memoryIsFlatOverManyCalls() {
        Generator numbers = Generator.seeded(3);
        for (Kernel kernel : kernels(numbers)) {
            Tensor w = kernel.weight(numbers);
            long warm = 0;
            for (int i = 0; i < 200; i++) {
                try (Scope step = Scope.open("step")) {
                    kernel.op.apply(w);
                    if (i % 10 == 9) {
                        Tensor.apply(new Update.Assign(), w, numbers.normal(w.shape().dims()));
                    }
                }
                warm = i == 50 ? live() : warm;
                assertTrue(i <= 50 || i % 10 != 0 || live() == warm, "after call " + i);
            }
        }
    }

    @Test
    void threadsShareForms() throws Exception {
        Generator numbers = Generator.seeded(4);
        List<Kernel> kernels = kernels(numbers);
        List<Tensor> weights = kernels.stream().map(kernel -> kernel.weight(numbers)).toList();
        try (ExecutorService pool = Executors.newFixedThreadPool(4)) {
            for (int round = 0; round < 4; round++) {
                List<float[]> expected = new ArrayList<>();
                for (int i = 0; i < kernels.size(); i++) {
                    Tensor.apply(new Update.Assign(), weights.get(i), numbers.normal(weights.get(i).shape().dims()));
                    expected.add(kernels.get(i).op.apply(weights.get(i).copy()).toFloats());
                }
                List<Callable<Void>> calls = new ArrayList<>();
                for (int call = 0; call < 8 * kernels.size(); call++) {
                    int i = call % kernels.size();
                    calls.add(() -> {
                        try (Scope own = Scope.open("call")) {
                            assertArrayEquals(expected.get(i), kernels.get(i).op.apply(weights.get(i)).toFloats());
                            return null;
                        }
                    });
                }
                for (Future<Void> done : pool.invokeAll(calls)) {
                    done.get();
                }
            }
        }
    }
}
