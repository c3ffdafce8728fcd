package dev.starling.cuda.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemoryUse;
import org.junit.jupiter.api.Test;

class DeviceAllocatorTest {
    private static final long MEBIBYTE = 1 << 20;

    private static DeviceAllocator over(QueuedGpu gpu) {
        return over(gpu, true);
    }

    private static DeviceAllocator over(QueuedGpu gpu, boolean caches) {
        return new DeviceAllocator("cuda:0", gpu, new SideCopies(gpu, gpu.stream(), submissions()), caches);
    }

    /** Returns the entry to a device that does not wait for its work. */
    static Submissions submissions() {
        return new Submissions("cuda:0", false, null, () -> "");
    }

    @Test
    void reusesFreedBlocks() {
        DeviceAllocator memory = over(new QueuedGpu(64 * MEBIBYTE));
        Block first = memory.allocate(3 * MEBIBYTE);
        memory.free(first);
        Block second = memory.allocate(3 * MEBIBYTE - 100);
        assertThat(second.address()).isEqualTo(first.address());
        assertThat(memory.use()).isEqualTo(new MemoryUse(3 * MEBIBYTE, 3 * MEBIBYTE, 0, 1));
    }

    @Test
    void putsSmallBlocksIntoASlabWithoutOverlap() {
        DeviceAllocator memory = over(new QueuedGpu(64 * MEBIBYTE));
        long end = 0;
        for (int i = 0; i < 1000; i++) {
            Block block = memory.allocate(1000);
            assertThat(block.address()).isGreaterThanOrEqualTo(end).matches(a -> a % 256 == 0);
            end = block.address() + 1000;
        }
        assertThat(memory.use().allocations()).isEqualTo(1);
    }

    @Test
    void freesTheCacheBeforeMemoryIsExhausted() {
        DeviceAllocator memory = over(new QueuedGpu(10 * MEBIBYTE));
        memory.free(memory.allocate(6 * MEBIBYTE));
        Block large = memory.allocate(8 * MEBIBYTE);
        assertThat(memory.use().cached()).isZero();
        assertThatThrownBy(() -> memory.allocate(5 * MEBIBYTE)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.MEMORY);
            assertThat(e).hasMessageContaining("cannot allocate 5242880 bytes with 8388608 bytes in use and 0 cached "
                    + "on queued GPU, which has 2097152 bytes free");
        });
        memory.free(large);
        assertThat(memory.allocate(9 * MEBIBYTE).capacity()).isEqualTo(9 * MEBIBYTE);
    }

    @Test
    void freesUnusedBlocksWhenTrimmed() {
        QueuedGpu gpu = new QueuedGpu(64 * MEBIBYTE);
        DeviceAllocator memory = over(gpu);
        Block kept = memory.allocate(2 * MEBIBYTE);
        memory.free(memory.allocate(4 * MEBIBYTE));
        memory.trim();
        assertThat(gpu.freeBytes()).isEqualTo(62 * MEBIBYTE);
        assertThat(memory.use().live()).isEqualTo(kept.capacity());
    }

    @Test
    void requestsAndFreesEachBlockWithoutACache() {
        QueuedGpu gpu = new QueuedGpu(10 * MEBIBYTE);
        DeviceAllocator memory = over(gpu, false);
        Block small = memory.allocate(1000);
        Block large = memory.allocate(3 * MEBIBYTE);
        assertThat(gpu.freeBytes()).isEqualTo(7 * MEBIBYTE - 1000);
        assertThat(small.capacity()).isEqualTo(1000);
        assertThatThrownBy(() -> memory.allocate(8 * MEBIBYTE)).isInstanceOf(TensorException.class)
                .hasMessageContaining("cannot allocate 8388608 bytes with 3146728 bytes in use and 0 cached "
                        + "on queued GPU");
        memory.free(small);
        memory.free(large);
        assertThat(gpu.freeBytes()).isEqualTo(10 * MEBIBYTE);
        memory.free(memory.allocate(0));
        assertThat(memory.use()).isEqualTo(new MemoryUse(0, 3 * MEBIBYTE + 1000, 0, 3));
    }

    @Test
    void freesUnusedSlabsWhenTrimmed() {
        QueuedGpu gpu = new QueuedGpu(64 * MEBIBYTE);
        DeviceAllocator memory = over(gpu);
        memory.free(memory.allocate(1000));
        assertThat(gpu.freeBytes()).isEqualTo(48 * MEBIBYTE);
        memory.trim();
        assertThat(gpu.freeBytes()).isEqualTo(64 * MEBIBYTE);
        assertThat(memory.use()).isEqualTo(new MemoryUse(0, 1024, 0, 1));
    }
}
