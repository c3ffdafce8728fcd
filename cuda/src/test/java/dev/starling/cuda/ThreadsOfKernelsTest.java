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
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.spi.Recording;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;

/** Threads that launch kernels with indices come and go. */
@Timeout(120)
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isPossible", disabledReason = "needs g++ on x86-64")
class ThreadsOfKernelsTest {
    private static final Device DEVICE = Device.of("cuda-emulated", 0);
    private static final int THREADS = 200;
    private static final int AT_ONCE = 6;

    /** How often memory was asked for that threads may have of their own: pinned, or a few bytes of the device's. */
    private final AtomicInteger asked = new AtomicInteger();
    private final CudaBackend backend = new CudaBackend(DEVICE, counting(Emulation.gpu()), Libraries.NONE);

    private Gpu counting(Gpu gpu) {
        return (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> {
                    boolean small = method.getName().equals("allocate") && (long) arguments[0] < 64;
                    asked.addAndGet(small || method.getName().equals("allocatePinned") ? 1 : 0);
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

    /** Has a thread do something, and waits until there is no thread any more. */
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

    /** Takes the element at an index of three, 0, 10 and 20. */
    private Tensor take(long index) {
        Tensor[] in = {Tensor.of(new float[] {0, 10, 20}).to(DEVICE), Tensor.of(new long[] {index}).to(DEVICE)};
        Selection take = new Selection.Take(0);
        return backend.run(take, in, take.infer(in[0].spec(), in[1].spec()))[0];
    }

    /** Reads by way of this backend, which tells of bad indices. */
    private float read(Tensor x) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(4);
            backend.download(x.address(), host.address(), 4);
            return host.get(ValueLayout.JAVA_FLOAT, 0);
        }
    }

    private static void assertTells(Callable<?> work, long index) {
        assertThatThrownBy(work::call).isInstanceOf(TensorException.class)
                .hasMessageContaining("take: index " + index + " at position 0 must lie between -3 and 2");
    }

    @Test
    void takesNoMoreMemoryTheMoreThreadsThereWere() throws Exception {
        for (int i = 0; i < THREADS; i++) {
            int index = i % 3;
            assertThat(inThread(i % 2 == 0, () -> read(take(index)))).isEqualTo(10 * index);
        }
        assertThat(asked.get()).isLessThan(10);
    }

    @Test
    void tellsNoThreadOfAnothersIndex() throws Exception {
        assertTells(() -> inThread(false, () -> read(take(7))), 7);
        for (int i = 0; i < 4; i++) {
            // Ends without having read.
            inThread(false, () -> take(8));
            assertThat(inThread(false, () -> read(take(2)))).isEqualTo(20);
            inThread(false, () -> take(9));
            assertTells(() -> inThread(false, () -> read(take(-5))), -5);
        }
    }

    @Test
    void tellsEachOfManyThreadsOfItsOwn() throws Exception {
        for (int round = 0; round < 20; round++) {
            List<FutureTask<Float>> all = new ArrayList<>();
            for (int i = 0; i < AT_ONCE; i++) {
                // Every other one is out of range.
                int index = i % 2 == 0 ? i % 3 : 3 + i + round;
                all.add(start(i % 3 == 0, () -> read(take(index))));
            }
            for (int i = 0; i < AT_ONCE; i++) {
                FutureTask<Float> each = all.get(i);
                if (i % 2 == 0) {
                    assertThat(each.get()).isEqualTo(10 * (i % 3));
                } else {
                    assertThatThrownBy(each::get).rootCause().hasMessageContaining("index " + (3 + i + round) + " at");
                }
            }
        }
        assertThat(asked.get()).isLessThan(10 + 2 * 2 * AT_ONCE);
    }

    /** A graph writes where the thread that took it down had its place, also when that is no more. */
    @Test
    void tellsNoThreadOfAGraphsIndex() throws Exception {
        // Its place is there to be taken over in the midst of what is taken down next.
        inThread(false, () -> take(9));
        Tensor[] in = {Tensor.of(new float[] {0, 10, 20}).to(DEVICE), Tensor.of(new long[] {1}).to(DEVICE)};
        Selection take = new Selection.Take(0);
        Spec[] out = take.infer(in[0].spec(), in[1].spec());
        Tensor[] taken = new Tensor[1];
        Recording recording = inThread(false, () -> backend.record(1,
                part -> taken[0] = Scope.detached(() -> backend.run(take, in, out)[0])));
        assertThat(recording).isNotNull();
        recording.run();
        assertThat(read(taken[0])).isEqualTo(10);
        float there = inThread(false, () -> {
            Tensor mine = take(2);
            backend.upload(eight().address(), in[1].address(), 8);
            recording.run();
            return read(mine);
        });
        assertThat(there).isEqualTo(20);
        int before = asked.get();
        recording.close();
        inThread(false, () -> take(0));
        inThread(false, () -> take(0));
        assertThat(asked.get()).isEqualTo(before);
        taken[0].close();
    }

    private static MemorySegment eight() {
        return Arena.ofAuto().allocateFrom(ValueLayout.JAVA_LONG, 8);
    }
}
