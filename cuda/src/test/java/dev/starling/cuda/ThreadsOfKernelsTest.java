package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.Recording;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;

/** Threads that launch kernels with indices start and end. */
@Timeout(120)
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
class ThreadsOfKernelsTest {
    private static final Device DEVICE = Device.of("cuda-emulated", 0);
    private static final int THREADS = 200;
    private static final int CONCURRENT = 6;

    /** How often memory was requested that may belong to a thread: pinned memory, or a few bytes of the device's. */
    private final AtomicInteger requests = new AtomicInteger();
    private final CudaBackend backend = new CudaBackend(DEVICE, counting(Emulation.gpu()), Libraries.NONE);

    private Gpu counting(Gpu gpu) {
        return (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> {
                    boolean small = method.getName().equals("allocate") && (long) arguments[0] < 64;
                    requests.addAndGet(small || method.getName().equals("allocatePinned") ? 1 : 0);
                    try {
                        return method.invoke(gpu, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    private static <T> FutureTask<T> start(boolean virtual, Callable<T> body) {
        FutureTask<T> task = new FutureTask<>(() -> {
            try (Scope scope = Scope.open()) {
                return body.call();
            }
        });
        (virtual ? Thread.ofVirtual() : Thread.ofPlatform()).start(task);
        return task;
    }

    /** Runs something in a new thread and waits until the thread has ended. */
    private static <T> T inThread(boolean virtual, Callable<T> body) throws Exception {
        Thread[] thread = new Thread[1];
        FutureTask<T> task = start(virtual, () -> {
            thread[0] = Thread.currentThread();
            return body.call();
        });
        try {
            return task.get();
        } catch (ExecutionException e) {
            throw (Exception) e.getCause();
        } finally {
            thread[0].join();
        }
    }

    /** Selects the element at an index of three elements: 0, 10 and 20. */
    private Tensor take(long index) {
        Tensor[] in = {Tensor.of(new float[] {0, 10, 20}).to(DEVICE), Tensor.of(new long[] {index}).to(DEVICE)};
        Selection take = new Selection.Take(0);
        return backend.run(take, in, take.infer(in[0].spec(), in[1].spec()))[0];
    }

    /** Reads through this backend, which reports bad indices. */
    private float read(Tensor x) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(4);
            backend.download(x.address(), host.address(), 4);
            return host.get(ValueLayout.JAVA_FLOAT, 0);
        }
    }

    private static void assertReports(Callable<?> work, long index) {
        assertThatThrownBy(work::call).isInstanceOf(TensorException.class)
                .hasMessageContaining("take: index " + index + " at position 0 must lie between -3 and 2");
    }

    @Test
    void usesNoMoreMemoryAfterManyThreads() throws Exception {
        for (int i = 0; i < THREADS; i++) {
            int index = i % 3;
            assertThat(inThread(i % 2 == 0, () -> read(take(index)))).isEqualTo(10 * index);
        }
        assertThat(requests.get()).isLessThan(10);
    }

    @Test
    void reportsABadIndexToNoOtherThread() throws Exception {
        assertReports(() -> inThread(false, () -> read(take(7))), 7);
        for (int i = 0; i < 4; i++) {
            // Ends without reading.
            inThread(false, () -> take(8));
            assertThat(inThread(false, () -> read(take(2)))).isEqualTo(20);
            inThread(false, () -> take(9));
            assertReports(() -> inThread(false, () -> read(take(-5))), -5);
        }
    }

    @Test
    void reportsEachOfManyThreadsItsOwnIndex() throws Exception {
        for (int round = 0; round < 20; round++) {
            List<FutureTask<Float>> all = new ArrayList<>();
            for (int i = 0; i < CONCURRENT; i++) {
                // Every other index is out of range.
                int index = i % 2 == 0 ? i % 3 : 3 + i + round;
                all.add(start(i % 3 == 0, () -> read(take(index))));
            }
            for (int i = 0; i < CONCURRENT; i++) {
                FutureTask<Float> each = all.get(i);
                if (i % 2 == 0) {
                    assertThat(each.get()).isEqualTo(10 * (i % 3));
                } else {
                    assertThatThrownBy(each::get).rootCause().hasMessageContaining("index " + (3 + i + round) + " at");
                }
            }
        }
        assertThat(requests.get()).isLessThan(10 + 2 * 2 * CONCURRENT);
    }

    @Test
    void letsAnyThreadRunAGraphThatChecksNoIndices() throws Exception {
        Tensor x = Tensor.of(new float[] {1}).to(DEVICE);
        Tensor index = Tensor.of(new long[] {0}).to(DEVICE);
        assertThat(isUsableElsewhere(new Movement.Copy(), x)).isTrue();
        assertThat(isUsableElsewhere(new Selection.Take(0), x, index)).isFalse();
        assertThat(isUsableElsewhere(new Update.Blend(1, 0), x, x)).as("an update reads the thread's flag").isFalse();
    }

    /** Records an operation in a new thread, which may use the recording, and returns whether this thread may. */
    private boolean isUsableElsewhere(Op op, Tensor... in) throws Exception {
        Spec[] out = op.infer(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new));
        Recording recording = inThread(false, () -> {
            Recording mine = backend.record(1, part -> backend.run(op, in, out));
            assertThat(mine.isUsable()).isTrue();
            return mine;
        });
        boolean usable = recording.isUsable();
        recording.close();
        return usable;
    }

    /** A graph reports to the slot of the thread that captured it, also after the thread has ended. */
    @Test
    void reportsAGraphsBadIndexToNoOtherThread() throws Exception {
        // The slot of an ended thread is there to be reused during the next capture.
        inThread(false, () -> take(9));
        Tensor[] in = {Tensor.of(new float[] {0, 10, 20}).to(DEVICE), Tensor.of(new long[] {1}).to(DEVICE)};
        Selection take = new Selection.Take(0);
        Spec[] out = take.infer(in[0].spec(), in[1].spec());
        Tensor[] captured = new Tensor[1];
        Recording recording = inThread(false, () -> backend.record(1,
                part -> captured[0] = Scope.detached(() -> backend.run(take, in, out)[0])));
        assertThat(recording).isNotNull();
        assertThat(recording.isUsable()).isFalse();
        recording.run();
        assertThat(read(captured[0])).isEqualTo(10);
        float there = inThread(false, () -> {
            Tensor mine = take(2);
            backend.upload(eight().address(), in[1].address(), 8);
            recording.run();
            return read(mine);
        });
        assertThat(there).isEqualTo(20);
        int before = requests.get();
        recording.close();
        inThread(false, () -> take(0));
        inThread(false, () -> take(0));
        assertThat(requests.get()).isEqualTo(before);
        captured[0].close();
    }

    private static MemorySegment eight() {
        return Arena.ofAuto().allocateFrom(ValueLayout.JAVA_LONG, 8);
    }
}
