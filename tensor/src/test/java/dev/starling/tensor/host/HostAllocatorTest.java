package dev.starling.tensor.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.Block;
import org.junit.jupiter.api.Test;

class HostAllocatorTest {
    /** The system would grant both, and end the process once it used them. */
    @Test
    void refusesMoreThanTheSystemHasInAll() {
        assumeTrue(PhysicalMemory.BYTES < Long.MAX_VALUE, "the JVM does not know the memory of this system");
        HostAllocator allocator = new HostAllocator();
        long most = PhysicalMemory.BYTES / 100 * 52;
        Block first = allocator.allocate(most);
        assertThatThrownBy(() -> allocator.allocate(most)).isInstanceOf(TensorException.class)
                .hasMessageContaining("cannot allocate " + most + " bytes");
        allocator.free(first);
        // The first one, which is cached and too small, goes back to the system.
        Block second = allocator.allocate(first.capacity() + 1);
        assertThat(second.address()).isNotZero();
        allocator.free(second);
        allocator.trim();
    }

    @Test
    void namesLimitsWhereClosingScopesWouldNotHelp() {
        long bytes = 1L << 50;
        assertThatThrownBy(() -> new HostAllocator().allocate(bytes)).isInstanceOf(TensorException.class)
                .hasMessage("allocate: cannot allocate " + bytes + " bytes with 0 bytes in use and 0 cached; give this "
                + "process more memory: that of its container or service, ulimit -v, or the machine's; or use smaller "
                + "tensors");
    }
}
