package dev.starling.tensor.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CachingAllocatorTest {
    private static final CachingAllocator.Sizes SIZES = new CachingAllocator.Sizes(64, 4, 64, 1 << 16, 1 << 13);

    /** Addresses without memory behind them. */
    private static final class Budget implements MemorySource {
        private final Map<Long, Long> lent = new TreeMap<>();
        private final long budget;
        private long next = 1 << 20;

        Budget(long budget) {
            this.budget = budget;
        }

        long used() {
            return lent.values().stream().mapToLong(Long::longValue).sum();
        }

        @Override
        public String name() {
            return "budget";
        }

        @Override
        public long allocate(long bytes) {
            if (used() + bytes > budget) {
                return 0;
            }
            lent.put(next, bytes);
            next += bytes;
            return next - bytes;
        }

        @Override
        public void free(long address) {
            assertThat(lent.remove(address)).isNotNull();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 4, 8})
    void classesHoldTheRequestAndWasteAtMostOnePart(int parts) {
        CachingAllocator.Sizes sizes = new CachingAllocator.Sizes(512, parts, 256, 1 << 24, 1 << 20);
        long before = 0;
        for (long bytes = 1; bytes < 1L << 40; bytes += 1 + bytes / 7) {
            long size = sizes.size(sizes.bin(bytes));
            assertThat(size).isGreaterThanOrEqualTo(bytes).isGreaterThanOrEqualTo(before).matches(s -> s % 256 == 0);
            assertThat(size).isLessThanOrEqualTo(Math.max(512, bytes + bytes / parts + 256));
            before = size;
        }
    }

    /** Blocks in use never overlap and lie in the source's memory, and the counters are sums over them. */
    @Test
    void blocksInUseAreDisjointWhateverIsFreedAndTrimmed() {
        Budget source = new Budget(1 << 22);
        CachingAllocator memory = new CachingAllocator(source, SIZES);
        Random random = new Random(3);
        List<Block> lent = new ArrayList<>();
        long peak = 0;
        for (int i = 0; i < 5000; i++) {
            if (random.nextInt(3) > 0 && lent.size() < 60) {
                lent.add(memory.allocate(1L << random.nextInt(15)));
            } else if (!lent.isEmpty()) {
                memory.free(lent.remove(random.nextInt(lent.size())));
            }
            if (random.nextInt(50) == 0) {
                memory.trim();
            }
            long live = lent.stream().mapToLong(Block::capacity).sum();
            peak = Math.max(peak, live);
            assertThat(memory.use().live()).isEqualTo(live);
            assertThat(live + memory.use().cached()).isLessThanOrEqualTo(source.used());
            assertThat(memory.use().peak()).isEqualTo(peak);
        }
        lent.sort((a, b) -> Long.compare(a.address(), b.address()));
        for (int i = 0; i < lent.size(); i++) {
            Block block = lent.get(i);
            long end = block.address() + block.capacity();
            assertThat(i + 1 == lent.size() || end <= lent.get(i + 1).address()).isTrue();
            assertThat(source.lent.entrySet()).anyMatch(e -> e.getKey() <= block.address()
                    && end <= e.getKey() + e.getValue());
        }
        lent.forEach(memory::free);
        memory.trim();
        assertThat(source.used()).isZero();
        assertThat(memory.use().cached()).isZero();
        assertThat(memory.allocate(100).capacity()).isEqualTo(112 + 16);
    }

    @Test
    void aSlabStaysWhileOneOfItsBlocksIsInUse() {
        Budget source = new Budget(1 << 20);
        CachingAllocator memory = new CachingAllocator(source, SIZES);
        Block kept = memory.allocate(64);
        memory.free(memory.allocate(64));
        memory.trim();
        assertThat(source.used()).isEqualTo(1 << 16);
        assertThat(memory.use().cached()).isEqualTo(64);
        memory.free(kept);
        memory.trim();
        assertThat(source.used()).isZero();
    }

    @Test
    void trimsTheCacheBeforeMemoryRunsOut() {
        CachingAllocator memory = new CachingAllocator(new Budget(1 << 20), SIZES);
        memory.free(memory.allocate(600_000));
        Block large = memory.allocate(900_000);
        assertThatThrownBy(() -> memory.allocate(500_000)).isInstanceOf(TensorException.class).hasMessageContaining(
                "cannot allocate 500000 bytes with " + large.capacity() + " bytes in use and 0 cached");
        assertThat(memory.use().live()).isEqualTo(large.capacity());
    }
}
