package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Nvrtc;
import dev.starling.tensor.Device;
import dev.starling.tensor.conformance.Conformance;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.condition.EnabledIf;

/** The backend's host code and kernels against the reference, on an emulated GPU. */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class EmulatedConformanceTest {
    /**
     * All operations in f32, and one of each kind that has kernels of its own for integers or booleans: g++ compiles
     * each kernel slowly.
     */
    private static final String SAMPLE = "f32|known|bad index|^(add|where|equal|sum|any|cumSum|sort|topK|concat"
            + "|permute|take|takeGradient|gather|scatterAdd|maxPool|full) (i64|bool)"
            + "|^(mul|cast|less|max|argMax|integers) i64";

    private static final Device DEVICE = Device.of("cuda-emulated", 0);
    private static final String H200 = "sm_90";

    /**
     * Every operation, but not in every type, since each takes a kernel that must be compiled; or, with
     * {@code -Dstarling.conformance=…}, the tests whose names match the regular expression.
     */
    @TestFactory
    @Order(1)
    Stream<DynamicTest> conforms() {
        Predicate<String> wanted = Pattern.compile(System.getProperty("starling.conformance", SAMPLE)).asPredicate();
        KernelInventory.compileAhead(DEVICE, 0, wanted);
        return ParallelTests.of(Conformance.of(DEVICE).filter(t -> wanted.test(t.getDisplayName())));
    }

    @TestFactory
    @Order(2)
    @Tag("stress")
    Stream<DynamicTest> conformsInEveryType() {
        return Conformance.of(DEVICE);
    }

    /** No kernel depends on the order of blocks, warps or lanes. */
    @TestFactory
    @Order(3)
    @Tag("stress")
    Stream<DynamicTest> conformsInOtherOrders() {
        Predicate<String> wanted = Pattern.compile(SAMPLE).asPredicate();
        return IntStream.range(EmulatedProvider.REORDERED, EmulatedProvider.DEVICES).boxed().flatMap(i ->
                ParallelTests.of(Conformance.of(Device.of("cuda-emulated", i))
                        .filter(t -> wanted.test(t.getDisplayName()))));
    }

    /** NVIDIA's compiler accepts what the emulator ran. */
    @Test
    @Order(4)
    @EnabledIf(value = "dev.starling.cuda.gpu.Nvrtc#isAvailable",
            disabledReason = "needs libnvrtc.so.13 on the loader's path or in the folder named by STARLING_NVRTC")
    void compilesTheEmulatorsKernelsForGpus() {
        KernelCompiler compiler = new KernelCompiler(new Nvrtc(), H200);
        List<String> failures = new ArrayList<>();
        int compiled = 0;
        for (KernelSource source : ((CudaBackend) DEVICE.backend()).compiler().sources()) {
            try {
                assertThat(compiler.compile(source)).isNotEmpty();
                compiled++;
            } catch (GpuException e) {
                failures.add(e.getMessage());
            }
        }
        assertThat(failures).isEmpty();
        assertThat(compiled).isPositive();
    }
}
