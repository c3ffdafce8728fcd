package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.conformance.Conformance;
import dev.starling.tensor.spi.Probe;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIf;

/** The backend on a real GPU, or on the device of the type that the property {@code starling.device} names. */
@EnabledIf(value = "isAvailable", disabledReason = "needs an NVIDIA GPU with a driver for CUDA 13 and its libraries")
class GpuConformanceTest {
    static final Device DEVICE = Device.of(System.getProperty("starling.device", "cuda"), 0);

    /** Which part of the tests this process runs, and the number of parts; other processes run the others. */
    private static final int[] PART = Arrays.stream(Objects.requireNonNullElse(System.getenv("STARLING_TEST_PART"),
            "0/1").split("/")).mapToInt(Integer::parseInt).toArray();

    static boolean isAvailable() {
        return Device.probes().get(DEVICE.type()) instanceof Probe.Ready;
    }

    /** All tests, or with {@code -Dstarling.conformance=…} those whose names match the regular expression. */
    @TestFactory
    Stream<DynamicTest> conforms() {
        Predicate<String> wanted = Pattern.compile(System.getProperty("starling.conformance", "")).asPredicate();
        AtomicInteger number = new AtomicInteger();
        return Conformance.of(DEVICE).filter(t -> wanted.test(t.getDisplayName()))
                .filter(t -> number.getAndIncrement() % PART[1] == PART[0]);
    }

    static boolean keepsBlocks() {
        return isAvailable() && PART[0] == 0 && !System.getProperty("starling.cuda.cache", "true").equals("false");
    }

    /** Blocks are reused while kernels that use them are still queued. */
    @Test
    @EnabledIf(value = "keepsBlocks", disabledReason = "blocks are not cached, or another part runs this test")
    void doesNotOverwriteMemoryOfQueuedKernels() {
        boolean real = DEVICE.equals(Device.cuda(0));
        int steps = real ? 2000 : 100;
        long allocations = 0;
        try (Scope scope = Scope.open()) {
            Tensor sum = Device.with(DEVICE, () -> Tensor.zeros(real ? 1 << 20 : 1 << 10));
            for (int i = 0; i < steps; i++) {
                Tensor before = sum;
                sum = addOne(before);
                before.close();
                if (i == 10) {
                    allocations = DEVICE.memory().allocations();
                }
            }
            float[] all = sum.toFloats();
            assertThat(all).containsOnly(steps);
        }
        assertThat(DEVICE.memory().allocations()).as("how often memory was asked for").isEqualTo(allocations);
    }

    private static Tensor addOne(Tensor sum) {
        try (Scope step = Scope.open()) {
            return step.keep(sum.mul(3).add(1).sub(sum.mul(2)));
        }
    }
}
