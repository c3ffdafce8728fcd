package dev.starling.tensor.host;

import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Backend;
import java.lang.foreign.MemorySegment;

/** A backend whose tensors lie in the host's memory. */
@FunctionalInterface
public interface HostBackend extends Backend {
    @Override
    default Allocator memory() {
        return HostAllocator.shared();
    }

    @Override
    default boolean hostVisible() {
        return true;
    }

    @Override
    default void upload(long hostAddress, long deviceAddress, long bytes) {
        MemorySegment.copy(HostMemory.ALL, hostAddress, HostMemory.ALL, deviceAddress, bytes);
    }

    @Override
    default void download(long deviceAddress, long hostAddress, long bytes) {
        upload(deviceAddress, hostAddress, bytes);
    }
}
