package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.junit.jupiter.api.Test;

class ScopeTest {
    private static long live() {
        return Device.cpu().memory().live();
    }

    @Test
    void freesMemoryAtClose() {
        try (Scope scope = Scope.open("first use, which allocates what stays")) {
            Tensor.ones(10, 10).add(1);
        }
        long before = live();
        try (Scope scope = Scope.open()) {
            Tensor.zeros(1000);
            Tensor.ones(10, 10).add(1);
            assertThat(scope.size()).isEqualTo(3);
            assertThat(live()).isGreaterThanOrEqualTo(before + 4000);
        }
        assertThat(live()).isEqualTo(before);
    }

    @Test
    void namesTensorAndScopeInUseAfterClose() {
        Tensor t;
        try (Scope scope = Scope.open("step 7")) {
            t = Tensor.ones(3).named("logits");
        }
        assertThat(t.isClosed()).isTrue();
        assertThatThrownBy(() -> t.add(1)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.CLOSED);
            assertThat(e.getMessage()).contains("logits", "step 7", "Scope.keep", "f32[3]");
        });
        assertThatThrownBy(t::toFloats).isInstanceOf(TensorException.class);
    }

    @Test
    void movesAResultWithItsViewsOut() {
        try (Scope outer = Scope.open("outer")) {
            Tensor kept;
            Tensor view;
            try (Scope inner = Scope.open("inner")) {
                kept = Tensor.of(new float[] {1, 2, 3, 4});
                view = kept.reshape(2, 2).t();
                inner.keep(view);
            }
            assertThat(kept.toFloats()).containsExactly(1, 2, 3, 4);
            assertThat(view.toFloats()).containsExactly(1, 3, 2, 4);
            assertThat(outer.owns(kept)).isTrue();
        }
    }

    @Test
    void returnsTheResultOfABodyAndFreesTheRest() {
        try (Scope scope = Scope.open()) {
            Tensor sum = Scope.run(() -> Tensor.ones(100).add(2).sum());
            assertThat(sum.item()).isEqualTo(300);
            assertThat(scope.size()).isEqualTo(1);
        }
    }

    @Test
    void leavesDetachedTensorsAlone() {
        Tensor parameter;
        try (Scope scope = Scope.open()) {
            parameter = Scope.detached(() -> Tensor.ones(5));
        }
        assertThat(parameter.sum().item()).isEqualTo(5);
        parameter.close();
        assertThat(parameter.isClosed()).isTrue();
        parameter.close();
    }

    @Test
    void refusesToCloseOutOfOrderOrOnAnotherThread() throws InterruptedException {
        Scope around = Scope.open("around");
        Scope outer = Scope.open("outer");
        Scope inner = Scope.open("inner");
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            try {
                inner.close();
            } catch (TensorException e) {
                thrown.set(e);
            }
        });
        thread.start();
        thread.join();
        assertThat(thrown.get()).hasMessageContaining("own thread");
        Tensor ofInner = Tensor.ones(3);
        assertThatThrownBy(outer::close).isInstanceOf(TensorException.class).hasMessageContaining("innermost first");
        assertThat(ofInner.isClosed()).isTrue();
        assertThat(around.owns(Tensor.ones(3))).as("no scope inside stays open").isTrue();
        inner.close();
        outer.close();
        outer.close();
        around.close();
    }

    private static void nest(int plain) {
        if (plain > 0) {
            nest(plain - 1);
            return;
        }
        try (Scope scope = Scope.open("nested")) {
            nest(0);
            Tensor.ones(1);
        }
    }

    /** Where the stack is full, close() fails as well. */
    @Test
    void closesScopesThatAFullStackKeptOpen() {
        // Loads what close() needs: a class whose initialiser has found the stack full stays unusable.
        try (Scope outer = Scope.open("outer")) {
            Scope.open("inner");
            assertThatThrownBy(outer::close).isInstanceOf(TensorException.class);
        }
        try (Scope around = Scope.open("around")) {
            for (int i = 0; i < 20; i++) {
                int plain = i;
                assertThatThrownBy(() -> nest(plain)).isInstanceOf(StackOverflowError.class);
                assertThat(around.owns(Tensor.ones(3))).as("repetition %s", i).isTrue();
            }
        }
    }

    @Test
    void reusesMemoryInSteadyState() {
        for (int i = 0; i < 3; i++) {
            step();
        }
        long before = Device.cpu().memory().allocations();
        for (int i = 0; i < 100; i++) {
            step();
        }
        assertThat(Device.cpu().memory().allocations()).isEqualTo(before);
    }

    private static void step() {
        try (Scope scope = Scope.open()) {
            Tensor.ones(300, 300).add(1).mul(2).sum(0);
        }
    }

    @Test
    void countsTheHighWaterMark() {
        long before = Device.cpu().memory().live();
        try (Scope scope = Scope.open()) {
            Tensor.zeros(1 << 20);
        }
        assertThat(Device.cpu().memory().peak()).isGreaterThanOrEqualTo(before + (4 << 20));
    }

    @Test
    void reportsALeakWithTheStackOfItsAllocation() throws InterruptedException {
        LinkedBlockingQueue<Leaks.Leak> leaks = new LinkedBlockingQueue<>();
        Leaks.listen(leaks::add);
        try {
            leak();
            Leaks.Leak leak = null;
            for (int i = 0; i < 100 && leak == null; i++) {
                System.gc();
                leak = leaks.poll(100, TimeUnit.MILLISECONDS);
            }
            assertThat(leak).isNotNull();
            assertThat(leak.bytes()).isGreaterThanOrEqualTo(4 * 12_345);
            assertThat(leak.madeAt().getStackTrace()).anyMatch(f -> f.getMethodName().equals("leak"));
        } finally {
            Leaks.listen(null);
        }
    }

    private static void leak() {
        Tensor.zeros(12_345);
    }

    @Test
    void keepsMemoryWhileItIsHeld() {
        try (Scope scope = Scope.open()) {
            Tensor t = Tensor.ones(4);
            t.storage().hold();
            t.reshape(2, 2).storage().hold();
            t.storage().drop();
            assertThat(t.isClosed()).isFalse();
            t.storage().drop();
            assertThat(t.isClosed()).isTrue();
            assertThat(scope.size()).isZero();
        }
    }

    @Test
    void namesTheRemedyForATensorThatCloseFreed() {
        Tensor x = Tensor.ones(2);
        x.close();
        assertThatThrownBy(() -> x.add(1)).hasMessageContaining("was closed by close()")
                .hasMessageContaining("close it after its last use");
    }

    @Test
    void freesMemoryOnceIfTwoThreadsCloseIt() throws InterruptedException {
        int rounds = 500;
        Spec spec = new Spec(DType.F32, Shape.of(77_777), Device.cpu());
        AtomicReferenceArray<Tensor> closing = new AtomicReferenceArray<>(rounds);
        AtomicInteger closed = new AtomicInteger();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread other = Thread.ofPlatform().daemon().start(() -> {
            for (int i = 0; i < rounds; i++) {
                Tensor tensor = closing.get(i);
                for (; tensor == null; tensor = closing.get(i)) {
                    Thread.onSpinWait();
                }
                try {
                    tensor.close();
                } catch (RuntimeException e) {
                    failure.set(e);
                }
                closed.set(i + 1);
            }
        });
        try (Scope scope = Scope.open()) {
            for (int i = 0; i < rounds; i++) {
                Tensor tensor = Scope.detached(() -> Storage.allocate(spec));
                closing.set(i, tensor);
                for (int spins = i % 32; spins > 0; spins--) {
                    Thread.onSpinWait();
                }
                tensor.close();
                while (closed.get() <= i) {
                    Thread.onSpinWait();
                }
                closing.set(i, null);
            }
            other.join(10_000);
            assertThat(failure.get()).isNull();
            assertThat(Storage.allocate(spec).address()).isNotEqualTo(Storage.allocate(spec).address());
        }
    }

    @Test
    void ownsTheOthersWhileAnotherThreadClosesSome() throws InterruptedException {
        int tensors = 20_000;
        AtomicReferenceArray<Tensor> made = new AtomicReferenceArray<>(tensors);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread other = Thread.ofPlatform().daemon().start(() -> {
            try {
                for (int i = 0; i < tensors && !Thread.currentThread().isInterrupted(); i += 2) {
                    Tensor tensor = made.get(i);
                    for (; tensor == null && !Thread.currentThread().isInterrupted(); tensor = made.get(i)) {
                        Thread.onSpinWait();
                    }
                    tensor.close();
                }
            } catch (RuntimeException e) {
                failure.set(e);
            }
        });
        try (Scope scope = Scope.open()) {
            for (int i = 0; i < tensors; i++) {
                made.set(i, Tensor.full(DType.I64, i, 1));
            }
            other.join(10_000);
            assertThat(failure.get()).isNull();
            for (int i = 1; i < tensors; i += 2) {
                assertThat(made.get(i).itemLong()).isEqualTo(i);
            }
        } finally {
            other.interrupt();
        }
        for (int i = 0; i < tensors; i++) {
            assertThat(made.get(i).isClosed()).isTrue();
        }
    }

    @Test
    void aSegmentOfReturnedMemoryCannotBeRead() {
        Tensor tensor = Tensor.ones(5 << 20);
        MemorySegment all = tensor.segment();
        MemorySegment part = tensor.narrow(0, 3, 2).readOnlySegment();
        assertThat(part.byteSize()).isEqualTo(8);
        assertThat(part.getAtIndex(ValueLayout.JAVA_FLOAT, 1)).isEqualTo(1);
        tensor.close();
        Device.cpu().backend().memory().trim();
        for (MemorySegment each : new MemorySegment[] {all, part}) {
            assertThatThrownBy(() -> each.getAtIndex(ValueLayout.JAVA_FLOAT, 0))
                    .isInstanceOf(IllegalStateException.class);
        }
    }

    @Test
    void aViewWithoutElementsHasASegmentWithoutBytes() {
        try (Scope scope = Scope.open()) {
            Tensor beyond = Tensor.ones(0, 1000).narrow(1, 500, 10);
            assertThat(beyond.segment().byteSize()).isZero();
            assertThat(beyond.readOnlySegment().byteSize()).isZero();
        }
    }
}
