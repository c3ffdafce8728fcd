package dev.starling.cuda.memory;

import static dev.starling.cuda.memory.DeviceAllocatorTest.submissions;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.IdleGpu;
import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.tensor.spi.PinnedMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Proxy;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Copies to the host and back beside kernels, in many orders that three streams can take. */
class PinnedCopiesTest {
    private static final int SEEDS = 60;
    private static final int ROUNDS = 8;
    private static final int PARTS = 3;
    private static final int BYTES = 512;
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** Streams by the order of their creation. */
    private static final int COMPUTE = 0;
    private static final int DOWN = 1;
    private static final int UP = 2;

    private interface Fault {
        void injectInto(QueuedGpu gpu);
    }

    private static Fault withoutWaitsOf(int stream) {
        return gpu -> gpu.disable(QueuedGpu.Wait.STREAM, gpu.streams().get(stream));
    }

    @Test
    void deliversBytesInEveryOrderOfStreams() {
        assertThat(wrong(_ -> { })).isZero();
    }

    @Test
    void detectsDownloadsThatDoNotWaitForKernels() {
        assertThat(wrong(withoutWaitsOf(DOWN))).isPositive();
    }

    @Test
    void detectsUploadsThatDoNotWaitForKernels() {
        assertThat(wrong(withoutWaitsOf(UP))).isPositive();
    }

    @Test
    void detectsKernelsThatDoNotWaitForCopies() {
        assertThat(wrong(withoutWaitsOf(COMPUTE))).isPositive();
    }

    @Test
    void detectsAHostThatDoesNotWait() {
        assertThat(wrong(gpu -> gpu.disable(QueuedGpu.Wait.HOST, null))).isPositive();
    }

    private static int wrong(Fault fault) {
        int wrong = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            QueuedGpu gpu = new QueuedGpu(1 << 20, seed);
            Gpu.Stream compute = gpu.stream();
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment host = arena.allocate(PARTS * BYTES);
                PinnedMemory memory = new PinnedCopies(gpu, compute, submissions()).pin(host.address(),
                        host.byteSize());
                fault.injectInto(gpu);
                wrong += rounds(gpu, compute, memory, host, new Random(seed));
                gpu.streams().forEach(gpu::synchronize);
            }
        }
        return wrong;
    }

    /** In each round kernels write each part, the host inverts every bit, and kernels read the result. */
    private static int rounds(QueuedGpu gpu, Gpu.Stream compute, PinnedMemory memory, MemorySegment host,
            Random random) {
        long device = gpu.allocate(PARTS * BYTES);
        long sources = gpu.allocate(ROUNDS * PARTS * BYTES);
        long results = gpu.allocate(ROUNDS * PARTS * BYTES);
        byte[] drawn = new byte[ROUNDS * PARTS * BYTES];
        random.nextBytes(drawn);
        MemorySegment.copy(drawn, 0, ALL, ValueLayout.JAVA_BYTE, sources, drawn.length);
        PinnedMemory.Part[] parts = new PinnedMemory.Part[PARTS];
        for (int p = 0; p < PARTS; p++) {
            parts[p] = memory.part((long) p * BYTES, BYTES);
        }
        for (int round = 0; round < ROUNDS; round++) {
            long from = (long) round * PARTS * BYTES;
            for (int p = 0; p < PARTS; p++) {
                gpu.copy(sources + from + (long) p * BYTES, device + (long) p * BYTES, BYTES, compute);
                parts[p].download(device + (long) p * BYTES);
            }
            for (int p = 0; p < PARTS; p++) {
                while (!parts[p].isDone()) {
                    Thread.onSpinWait();
                }
                // A kernel that must be done before the bytes come back.
                gpu.fill(device + (long) p * BYTES, (byte) 0, BYTES, compute);
                for (int i = p * BYTES; i < (p + 1) * BYTES; i++) {
                    host.set(ValueLayout.JAVA_BYTE, i, (byte) ~host.get(ValueLayout.JAVA_BYTE, i));
                }
                parts[p].upload(device + (long) p * BYTES);
                gpu.copy(device + (long) p * BYTES, results + from + (long) p * BYTES, BYTES, compute);
            }
        }
        gpu.synchronize(compute);
        int wrong = 0;
        for (int i = 0; i < drawn.length; i++) {
            wrong += ALL.get(ValueLayout.JAVA_BYTE, results + i) == (byte) ~drawn[i] ? 0 : 1;
        }
        return wrong;
    }

    /** Memory that stayed page-locked would fail to be page-locked again, and be copied wrongly after it was freed. */
    @Test
    void pinsNothingWithoutStreams() {
        Gpu idle = new IdleGpu(null);
        int[] streams = {0};
        int[] pinned = {0};
        Gpu gpu = (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> {
                    pinned[0] += method.getName().equals("pin") ? 1 : 0;
                    if (method.getName().equals("stream") && ++streams[0] == 2) {
                        throw GpuException.exhausted("cuStreamCreate: error 2, out of memory");
                    }
                    return method.invoke(idle, arguments);
                });
        PinnedCopies copies = new PinnedCopies(gpu, gpu.stream(), submissions());
        assertThatThrownBy(() -> copies.pin(4096, BYTES)).isInstanceOf(GpuException.class);
        assertThat(pinned[0]).isZero();
        copies.pin(4096, BYTES).close();
        assertThat(pinned[0]).isEqualTo(1);
    }

    @Test
    void doesNotMakeTheHostWait() {
        QueuedGpu gpu = new QueuedGpu(1 << 20);
        Gpu.Stream compute = gpu.stream();
        long device = gpu.allocate(BYTES);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(BYTES);
            PinnedMemory.Part part = new PinnedCopies(gpu, compute, submissions()).pin(host.address(), BYTES)
                    .part(0, BYTES);
            assertThat(part.isDone()).isTrue();
            gpu.fill(device, (byte) 1, BYTES, compute);
            part.download(device);
            assertThat(part.isDone()).isFalse();
            gpu.synchronize(gpu.streams().get(DOWN));
            assertThat(part.isDone()).isTrue();
            assertThat(host.get(ValueLayout.JAVA_BYTE, BYTES - 1)).isEqualTo((byte) 1);
            part.upload(device);
            assertThat(part.isDone()).isFalse();
            gpu.synchronize(compute);
            assertThat(part.isDone()).isTrue();
            part.close();
        }
    }
}
