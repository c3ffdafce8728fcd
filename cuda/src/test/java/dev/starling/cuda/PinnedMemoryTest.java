package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.PinnedMemory;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;

/** Gradients that are copied to host memory beside kernels, and copied back changed. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class PinnedMemoryTest {
    private static final Device DEVICE = AnyGpu.device();
    private static final int PARTS = 3;
    private static final int COUNT = 100_000;
    private static final long BYTES = 4L * COUNT;
    private static final Duration TIMEOUT = Duration.ofSeconds(20);

    @TempDir
    Path directory;

    @Test
    void copiesToTheHostAndBack() {
        try (Arena arena = Arena.ofShared()) {
            thereAndBack(arena.allocate(PARTS * BYTES, 4096));
        }
    }

    /** Shared memory, as a transport maps it for processes of one host. */
    @Test
    void copiesToMemoryThatProcessesShare() throws IOException {
        Path shared = Path.of("/dev/shm");
        Path file = (shared.toFile().isDirectory() ? shared : directory).resolve("starling-pinned-"
                + ProcessHandle.current().pid());
        try (Arena arena = Arena.ofShared(); RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
            open.setLength(PARTS * BYTES);
            thereAndBack(open.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, PARTS * BYTES, arena));
        } finally {
            assertThat(file.toFile().delete()).isTrue();
        }
    }

    private static void thereAndBack(MemorySegment host) {
        Tensor[] on = new Tensor[PARTS];
        PinnedMemory.Part[] parts = new PinnedMemory.Part[PARTS];
        try (Scope scope = Scope.open(); PinnedMemory memory = DEVICE.backend().pin(host.address(), PARTS * BYTES)) {
            for (int p = 0; p < PARTS; p++) {
                parts[p] = memory.part(p * BYTES, BYTES);
                on[p] = Storage.allocate(new Spec(DType.F32, Shape.of(COUNT), DEVICE));
            }
            for (int round = 1; round <= 5; round++) {
                float[][] expected = new float[PARTS][];
                for (int p = 0; p < PARTS; p++) {
                    Tensor drawn = Generator.seeded(10 * round + p).uniform(new Spec(DType.F32, Shape.of(COUNT),
                            DEVICE), -1, 1);
                    expected[p] = drawn.mul(2).toFloats();
                    Tensor.apply(new Update.Assign(), on[p], drawn.mul(2));
                    parts[p].download(on[p].address());
                }
                for (int p = 0; p < PARTS; p++) {
                    await(parts[p]);
                    for (long i = p * (long) COUNT; i < (p + 1) * (long) COUNT; i++) {
                        host.setAtIndex(ValueLayout.JAVA_FLOAT, i, 1 - host.getAtIndex(ValueLayout.JAVA_FLOAT, i));
                    }
                    parts[p].upload(on[p].address());
                    float[] back = on[p].mul(4).toFloats();
                    for (int i = 0; i < COUNT; i++) {
                        back[i] -= 4 * (1 - expected[p][i]);
                    }
                    assertThat(back).containsOnly(0);
                }
            }
            for (PinnedMemory.Part part : parts) {
                await(part);
                part.close();
            }
        }
    }

    private static void await(PinnedMemory.Part part) {
        long begin = System.nanoTime();
        while (!part.isDone()) {
            assertThat(System.nanoTime() - begin).isLessThan(TIMEOUT.toNanos());
            Thread.onSpinWait();
        }
    }
}
