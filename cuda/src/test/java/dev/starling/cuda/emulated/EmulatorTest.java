package dev.starling.cuda.emulated;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** The emulator detects faults that running on a host would not reveal. */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
class EmulatorTest {
    private static final int THREADS = 128;

    private final Map<String, byte[]> programs = new HashMap<>();

    /** Compiles a kernel of one pointer. */
    private static byte[] compile(String body) {
        return Emulation.compiler().compile("kernel", "struct alignas(16) Four { unsigned at[4]; };\n"
                + "extern \"C\" __global__ void __launch_bounds__(128) kernel(unsigned* y) {\n" + body + "\n}\n",
                "host");
    }

    /** Runs a kernel of one pointer with a block of 128 threads; returns the 32-bit words that it wrote. */
    private int[] run(int seed, String body, int offset, int bytes) {
        Gpu gpu = Emulation.gpu(seed);
        Gpu.Function kernel = gpu.load(programs.computeIfAbsent(body, EmulatorTest::compile)).function("kernel");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment words = arena.allocate(4 * 2 * THREADS, 16);
            MemorySegment arguments = arena.allocate(16, 16);
            arguments.set(ValueLayout.JAVA_LONG, 0, words.address() + offset);
            gpu.launch(kernel, new Gpu.Grid(1, 1, 1, THREADS), gpu.stream(), arguments.address(), bytes);
            return words.toArray(ValueLayout.JAVA_INT);
        }
    }

    private int[] run(int seed, String body) {
        return run(seed, body, 0, 8);
    }

    @Test
    void refusesVectorsThatAreNotAligned() {
        String copy = "*(Four*) (y + 4 * threadIdx.x % 128) = Four {1, 2, 3, 4};";
        assertThat(run(1, copy)).startsWith(1, 2, 3, 4, 1);
        assertThatThrownBy(() -> run(1, copy, 4, 8)).isInstanceOf(GpuException.class)
                .hasMessageContaining("kernel: line 3").hasMessageContaining("no multiple of 16");
    }

    @Test
    void refusesArgumentsOfAnotherSize() {
        assertThatThrownBy(() -> run(1, "*y = 1;", 0, 12)).isInstanceOf(GpuException.class)
                .hasMessageContaining("take 8 bytes, the launch has 12");
    }

    /** Two warps write one word without a barrier: which write is last depends only on the seed. */
    @Test
    void runsWarpsInAnOrderOfTheSeed() {
        Set<Integer> last = new HashSet<>();
        for (int seed = 1; seed <= 16; seed++) {
            int[] words = run(seed, "*y = threadIdx.x;");
            assertThat(run(seed, "*y = threadIdx.x;")).isEqualTo(words);
            last.add(words[0] / 32);
        }
        assertThat(last).containsExactlyInAnyOrder(0, 1, 2, 3);
    }

    /** The lanes of a warp run in no order that a kernel may rely on either. */
    @Test
    void detectsReadsWithoutABarrier() {
        String exchange = "__shared__ unsigned at[128]; at[threadIdx.x] = threadIdx.x; %s"
                + " y[threadIdx.x] = at[threadIdx.x ^ %d];";
        for (int distance : new int[] {1, 64}) {
            int wrong = 0;
            for (int seed = 1; seed <= 8; seed++) {
                int[] waits = run(seed, exchange.formatted("__syncthreads();", distance));
                int[] races = run(seed, exchange.formatted("", distance));
                for (int i = 0; i < THREADS; i++) {
                    assertThat(waits[i]).isEqualTo(i ^ distance);
                    wrong += races[i] == (i ^ distance) ? 0 : 1;
                }
            }
            assertThat(wrong).as("threads that read too early, %d apart", distance).isPositive();
        }
    }

    @Test
    void clearsSharedMemory() {
        String stale = "__shared__ unsigned at[128]; y[threadIdx.x] = at[threadIdx.x]; at[threadIdx.x] = 7;";
        assertThat(run(1, stale)).startsWith(-1, -1, -1);
    }
}
