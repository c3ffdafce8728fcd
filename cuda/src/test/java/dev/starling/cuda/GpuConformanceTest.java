package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.conformance.Conformance;
import dev.starling.tensor.spi.Probe;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIf;

/** The backend on a real GPU, or on the device of another type that the property {@code starling.device} names. */
@EnabledIf(value = "isThere", disabledReason = "needs an NVIDIA GPU with a driver for CUDA 13 and its libraries")
class GpuConformanceTest {
    static final Device DEVICE = Device.of(System.getProperty("starling.device", "cuda"), 0);

    static boolean isThere() {
        return Device.probes().get(DEVICE.type()) instanceof Probe.Ready;
    }

    /** All tests, or with {@code -Dstarling.conformance=…} those in whose names the regular expression is found. */
    @TestFactory
    Stream<DynamicTest> conforms() {
        Predicate<String> wanted = Pattern.compile(System.getProperty("starling.conformance", "")).asPredicate();
        return Conformance.of(DEVICE).filter(t -> wanted.test(t.getDisplayName()));
    }

    static boolean isRealAndAllIsWanted() {
        return DEVICE == Device.cuda(0) && isThere() && System.getProperty("starling.conformance", "").isEmpty();
    }

    /** Blocks go from hand to hand while kernels that use them are still queued. */
    @Test
    @EnabledIf(value = "isRealAndAllIsWanted", disabledReason = "an emulator queues nothing and is slow")
    void memoryOfQueuedKernelsIsNotOverwritten() {
        try (Scope scope = Scope.open()) {
            Tensor sum = Device.with(DEVICE, () -> Tensor.zeros(1 << 20));
            for (int i = 0; i < 2000; i++) {
                sum = next(sum, scope);
            }
            float[] all = sum.toFloats();
            assertThat(all).containsOnly(2000);
        }
        assertThat(DEVICE.memory().peak()).isLessThan(64 << 20);
    }

    private static Tensor next(Tensor sum, Scope outer) {
        try (Scope step = Scope.open()) {
            Tensor noise = sum.mul(3).add(1).sub(sum.mul(2));
            return step.keep(noise);
        } finally {
            assertThat(outer.size()).isLessThan(4000);
        }
    }
}
