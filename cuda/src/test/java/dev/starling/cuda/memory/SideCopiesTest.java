package dev.starling.cuda.memory;

import static dev.starling.cuda.memory.DeviceAllocatorTest.submissions;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.Uploader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Uploads beside kernels that read earlier data, in many orders that two streams can take. */
class SideCopiesTest {
    private static final int SEEDS = 60;
    private static final int ROUNDS = 12;
    private static final int SLOTS = 3;
    private static final int BYTES = 4096;
    private static final int PIECE = 1500;
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private interface Fault {
        void injectInto(QueuedGpu gpu, Gpu.Stream compute);
    }

    @Test
    void deliversBytesInEveryOrderOfStreams() {
        assertThat(wrong((_, _) -> { })).isZero();
    }

    @Test
    void detectsKernelsThatDoNotWaitForTheirUpload() {
        assertThat(wrong((gpu, compute) -> gpu.disable(QueuedGpu.Wait.STREAM, compute))).isPositive();
    }

    @Test
    void detectsUploadsThatDoNotWaitForEarlierKernels() {
        assertThat(wrong((gpu, compute) -> gpu.disable(QueuedGpu.Wait.STREAM,
                gpu.streams().stream().filter(s -> s != compute).findFirst().orElseThrow()))).isPositive();
    }

    @Test
    void detectsPinnedBuffersFilledTooEarly() {
        assertThat(wrong((gpu, _) -> gpu.disable(QueuedGpu.Wait.HOST, null))).isPositive();
    }

    /** Returns the number of rounds that read something other than what was uploaded. */
    private static int wrong(Fault fault) {
        int wrong = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            QueuedGpu gpu = new QueuedGpu(1 << 20, seed);
            Gpu.Stream compute = gpu.stream();
            SideCopies copies = new SideCopies(gpu, compute, submissions(), PIECE);
            fault.injectInto(gpu, compute);
            wrong += rounds(gpu, compute, copies, new Random(seed));
        }
        return wrong;
    }

    /** Uploads alternately into several slots, two rounds ahead of the kernels that read them. */
    private static int rounds(QueuedGpu gpu, Gpu.Stream compute, SideCopies copies, Random random) {
        Uploader[] uploaders = new Uploader[SLOTS];
        long[] slots = new long[SLOTS];
        for (int i = 0; i < SLOTS; i++) {
            uploaders[i] = copies.uploader();
            slots[i] = gpu.allocate(BYTES);
        }
        long results = gpu.allocate(ROUNDS * BYTES);
        byte[][] expected = new byte[ROUNDS][BYTES];
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(BYTES);
            for (int i = 0; i < ROUNDS + 2; i++) {
                if (i < ROUNDS) {
                    uploaders[i % SLOTS].lend();
                    random.nextBytes(expected[i]);
                    MemorySegment.copy(expected[i], 0, host, ValueLayout.JAVA_BYTE, 0, BYTES);
                    // In two pieces, so that the second one matters too.
                    uploaders[i % SLOTS].copy(host.address(), slots[i % SLOTS], 1000);
                    uploaders[i % SLOTS].copy(host.address() + 1000, slots[i % SLOTS] + 1000, BYTES - 1000);
                    host.fill((byte) 0);
                }
                if (i >= 2) {
                    uploaders[(i - 2) % SLOTS].await();
                    gpu.copy(slots[(i - 2) % SLOTS], results + (long) (i - 2) * BYTES, BYTES, compute);
                }
            }
        }
        gpu.synchronize(compute);
        int wrong = 0;
        for (int i = 0; i < ROUNDS; i++) {
            MemorySegment result = ALL.asSlice(results + (long) i * BYTES, BYTES);
            wrong += result.mismatch(MemorySegment.ofArray(expected[i])) == -1 ? 0 : 1;
        }
        return wrong;
    }

    @Test
    void reusesMemoryFreedDuringAnUploadAfterTheUpload() {
        assertThat(overwritten(true, false)).isZero();
        assertThat(overwritten(false, true)).isZero();
        assertThat(overwritten(false, false)).isPositive();
    }

    /** Uploads into a block, frees it immediately, and lets a kernel write to the next block, which is the same. */
    private static int overwritten(boolean throughTheAllocator, boolean settled) {
        int wrong = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            QueuedGpu gpu = new QueuedGpu(2 << 20, seed);
            Gpu.Stream compute = gpu.stream();
            SideCopies copies = new SideCopies(gpu, compute, submissions(), PIECE);
            DeviceAllocator memory = new DeviceAllocator("queued", gpu,
                    throughTheAllocator ? copies : new SideCopies(gpu, compute, submissions(), PIECE), true);
            Uploader uploader = copies.uploader();
            Block block = memory.allocate(1 << 20);
            uploader.lend();
            try (Arena arena = Arena.ofConfined()) {
                uploader.copy(arena.allocate(BYTES).fill((byte) 1).address(), block.address(), BYTES);
            }
            if (settled) {
                copies.settle();
            }
            memory.free(block);
            Block next = memory.allocate(1 << 20);
            assertThat(next.address()).isEqualTo(block.address());
            gpu.fill(next.address(), (byte) 2, BYTES, compute);
            gpu.streams().forEach(gpu::synchronize);
            wrong += ALL.get(ValueLayout.JAVA_BYTE, next.address()) == 2 ? 0 : 1;
        }
        return wrong;
    }

    /** The pieces that were queued before the failure may still be under way. */
    @Test
    void reusesMemoryAfterAnUploadThatFailed() {
        for (int seed = 0; seed < SEEDS; seed++) {
            QueuedGpu gpu = new QueuedGpu(2 << 20, seed);
            Gpu.Stream compute = gpu.stream();
            SideCopies copies = new SideCopies(gpu, compute, submissions(), PIECE);
            DeviceAllocator memory = new DeviceAllocator("queued", gpu, copies, true);
            Uploader uploader = copies.uploader();
            Block block = memory.allocate(1 << 20);
            uploader.lend();
            gpu.limitPinned(1);
            try (Arena arena = Arena.ofConfined()) {
                long host = arena.allocate(BYTES).fill((byte) 1).address();
                assertThatThrownBy(() -> uploader.copy(host, block.address(), BYTES))
                        .hasMessageContaining("no pinned memory");
            }
            memory.free(block);
            Block next = memory.allocate(1 << 20);
            assertThat(next.address()).isEqualTo(block.address());
            gpu.fill(next.address(), (byte) 2, BYTES, compute);
            gpu.streams().forEach(gpu::synchronize);
            assertThat(ALL.get(ValueLayout.JAVA_BYTE, next.address())).isEqualTo((byte) 2);
        }
    }

    @Test
    void destroysEvents() {
        QueuedGpu gpu = new QueuedGpu(1 << 20);
        Gpu.Stream compute = gpu.stream();
        SideCopies copies = new SideCopies(gpu, compute, submissions(), PIECE);
        long device = gpu.allocate(BYTES);
        int[] events = new int[3];
        for (int i = 0; i < events.length; i++) {
            try (Arena arena = Arena.ofConfined(); Uploader uploader = copies.uploader()) {
                uploader.lend();
                uploader.copy(arena.allocate(BYTES).fill((byte) 3).address(), device, BYTES);
            }
            events[i] = gpu.events();
            // Closing waits for the copy under way.
            gpu.copy(device, device + BYTES / 2, 1, compute);
            gpu.synchronize(compute);
            assertThat(ALL.get(ValueLayout.JAVA_BYTE, device + BYTES / 2)).isEqualTo((byte) 3);
        }
        assertThat(events[2]).isEqualTo(events[1]);
    }

    @Test
    void doesNotMakeTheHostWaitForAnUpload() {
        QueuedGpu gpu = new QueuedGpu(32 << 20);
        SideCopies copies = new SideCopies(gpu, gpu.stream(), submissions(), PIECE);
        long device = gpu.allocate(BYTES);
        ALL.asSlice(device, BYTES).fill((byte) 0);
        Uploader uploader = copies.uploader();
        uploader.lend();
        try (Arena arena = Arena.ofConfined()) {
            uploader.copy(arena.allocate(BYTES).fill((byte) 1).address(), device, BYTES);
        }
        uploader.await();
        assertThat(ALL.get(ValueLayout.JAVA_BYTE, device)).isZero();
        gpu.synchronize(gpu.streams().getFirst());
        assertThat(ALL.get(ValueLayout.JAVA_BYTE, device)).isEqualTo((byte) 1);
    }
}
