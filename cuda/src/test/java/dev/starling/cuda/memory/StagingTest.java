package dev.starling.cuda.memory;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.QueuedGpu;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class StagingTest {
    /** The host memory changes right after the call, before the device has read the buffers. */
    @ParameterizedTest
    @ValueSource(longs = {0, 1, 1000, Staging.PIECE, Staging.PIECE + 1, 5 * Staging.PIECE + 12345})
    void copiesBytesBeforeTheHostChangesThem(long bytes) {
        Gpu gpu = new QueuedGpu(64 << 20);
        Gpu.Stream stream = gpu.stream();
        Staging staging = new Staging(gpu, stream, 2);
        byte[] expected = new byte[(int) bytes];
        new Random(7).nextBytes(expected);
        long device = gpu.allocate(Math.max(1, bytes));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(Math.max(1, bytes));
            MemorySegment.copy(expected, 0, host, ValueLayout.JAVA_BYTE, 0, expected.length);
            staging.upload(host.address(), device, bytes);
            host.fill((byte) 99);
            staging.download(device, host.address(), bytes);
            assertThat(host.asSlice(0, bytes).toArray(ValueLayout.JAVA_BYTE)).isEqualTo(expected);
        }
    }
}
