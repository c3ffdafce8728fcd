package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.spi.Recording;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;

/**
 * JavaCPP refuses to allocate in a process whose memory exceeds a limit, by default twice the heap, which is less than
 * what a driver and its libraries map. No code that runs repeatedly may allocate through JavaCPP.
 */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class SmallHeapTest {
    private static final String LIMIT = "-Dorg.bytedeco.javacpp.maxPhysicalBytes=1";

    @Test
    void callsLibrariesWhereJavaCppAllocatesNothing(@TempDir Path folder) throws Exception {
        Path output = folder.resolve("output.txt");
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED", "--add-modules", "jdk.incubator.vector", LIMIT,
                "-Dorg.bytedeco.javacpp.maxRetries=1", "-cp", System.getProperty("java.class.path"),
                Calls.class.getName(), folder.toString()).redirectErrorStream(true).redirectOutput(output.toFile())
                .start();
        boolean ended = process.waitFor(3, TimeUnit.MINUTES);
        process.destroyForcibly();
        String text = Files.readString(output, StandardCharsets.UTF_8);
        assertThat(ended && process.exitValue() == 0).as(text).isTrue();
        assertThat(text).contains("computed by libraries: 3", "capability 9.0, 90, ", "error 999");
    }

    /** One call of each library except NCCL, with JavaCPP's limit exceeded from the start. */
    static final class Calls {
        private Calls() { }

        /** Runs the calls. */
        public static void main(String[] arguments) {
            FakeLibraries.load();
            Device device = Device.of("cuda-emulated", 1);
            try (Scope scope = Scope.open()) {
                Tensor x = full(device, DType.F32, 4, 4);
                x.matmul(x);
                x.softmax(-1);
                Convolutions.conv2d(full(device, DType.F32, 1, 4, 5, 5), full(device, DType.F32, 4, 4, 1, 1), null, 1,
                        0, 1, 1);
                Tensor heads = full(device, DType.BF16, 1, 2, 9, 16);
                Tensor.apply(new Attention.ScaledDotProduct(0.25, true), heads, heads, heads);
            }
            System.out.println("computed by libraries: " + FakeLibraries.computed());
            driver(Path.of(arguments[0]));
        }

        private static Tensor full(Device device, DType type, long... shape) {
            return Device.with(device, () -> Tensor.full(type, 2, shape));
        }

        private static void driver(Path programs) {
            FakeDriver.devices(1);
            NvidiaGpu gpu = new NvidiaGpu(0, NvidiaGpuTest.COMPILER);
            System.out.println(NvidiaGpu.describe(0) + ", " + NvidiaGpu.capability(0) + ", " + gpu.freeBytes());
            CudaBackend backend = new CudaBackend(Device.cuda(0), gpu, Libraries.NONE, CudaConfig.read(),
                    new KernelCompiler(NvidiaGpuTest.COMPILER, "sm_90", programs));
            Spec spec = new Spec(DType.F32, Shape.of(3), Device.reference());
            Recording recording = backend.record(1,
                    part -> backend.run(new Fill.Full(spec, 1), new Tensor[0], new Spec[] {spec}));
            recording.run();
            recording.close();
            FakeDriver.fail("cuStreamSynchronize", 999, 1);
            try {
                gpu.synchronize(gpu.stream());
            } catch (GpuException e) {
                System.out.println(e.getMessage());
            }
        }
    }
}
