package dev.starling.cuda;

import dev.starling.cuda.bench.Benchmarks;
import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.dnn.ConvolutionLibrary;
import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.IdleGpu;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.Nvrtc;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.Device;
import dev.starling.tensor.Threads;
import dev.starling.tensor.conformance.Conformance;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/**
 * Compiles the kernels that the conformance suite and the benchmarks use, with all processors, so that later runs find
 * them in the cache. It lists them by running everything on a GPU that does nothing.
 */
public final class KernelInventory {
    private static final String TYPE = "cuda-idle";
    private static final Map<String, KernelSource> SOURCES = new ConcurrentHashMap<>();
    private static volatile Consumer<KernelSource> onSource = source -> { };

    /** Libraries that do nothing and report success. */
    private static final Libraries IDLE = new Libraries() {
        @Override
        public Blas blas(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return idle(Blas.class);
        }

        @Override
        public ConvolutionLibrary convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return idle(ConvolutionLibrary.class);
        }

        private static <T> T idle(Class<T> library) {
            return library.cast(Proxy.newProxyInstance(library.getClassLoader(), new Class<?>[] {library},
                    (self, method, arguments) -> true));
        }
    };

    /** Offers {@code cuda-idle}: device 0 has Starling's own kernels only, device 1 has libraries too. */
    public static final class Provider implements BackendProvider {
        @Override
        public String type() {
            return TYPE;
        }

        @Override
        public Probe probe() {
            return new Probe.Ready(2, "GPUs that do nothing");
        }

        @Override
        public Backend open(Device device) {
            IdleGpu gpu = new IdleGpu(new Recorder());
            return new CudaBackend(device, gpu, device.index() == 0 ? Libraries.NONE : IDLE,
                    new KernelCompiler(gpu.compiler(), gpu.architecture(), scratch()));
        }
    }

    /** Records the sources that it gets. */
    private static final class Recorder implements Compiler {
        @Override
        public String version() {
            return TYPE;
        }

        @Override
        public byte[] compile(String name, String text, String architecture) {
            KernelSource source = new KernelSource(name, "", text);
            if (SOURCES.putIfAbsent(text, source) == null) {
                onSource.accept(source);
            }
            return new byte[1];
        }
    }

    private KernelInventory() { }

    private static Path scratch() {
        try {
            Path folder = Files.createTempDirectory("starling-idle");
            Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(folder)));
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path folder) {
        try (var files = Files.list(folder)) {
            files.forEach(file -> file.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        folder.toFile().delete();
    }

    /**
     * Returns the sources that the benchmarks and the conformance tests with matching names use.
     *
     * @param listener called with each new source, by any thread
     */
    static Iterable<KernelSource> list(Predicate<String> tests, boolean benchmarks, Consumer<KernelSource> listener) {
        onSource = listener;
        List<DynamicTest> all = Stream.of(0, 1).flatMap(i -> Conformance.of(Device.of(TYPE, i)))
                .filter(t -> tests.test(t.getDisplayName())).toList();
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            all.forEach(test -> pool.submit(() -> Threads.with(1, () -> attempt(test))));
            if (benchmarks) {
                // Kernels depend on sizes too.
                pool.submit(() -> Benchmarks.runOnce(Device.of(TYPE, 1), false));
                pool.submit(() -> Benchmarks.runOnce(Device.of(TYPE, 0), true));
            }
        }
        return SOURCES.values();
    }

    /** Runs a test and ignores its result, which cannot be right. */
    private static Void attempt(DynamicTest test) {
        try {
            test.getExecutable().execute();
        } catch (Throwable e) {
            // The idle GPU computes nothing.
        }
        return null;
    }

    /** Runs the command; the argument is the architecture, by default the first GPU's. */
    public static void main(String[] arguments) {
        long begin = System.nanoTime();
        KernelCompiler compiler = new KernelCompiler(new Nvrtc(),
                arguments.length > 0 ? arguments[0] : new NvidiaGpu(0).architecture());
        Predicate<String> tests = Pattern.compile(System.getProperty("starling.conformance", "")).asPredicate();
        Queue<String> failures = new ConcurrentLinkedQueue<>();
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            list(tests, true, source -> pool.submit(() -> {
                try {
                    compiler.compile(source);
                } catch (GpuException e) {
                    failures.add(e.getMessage());
                }
            }));
            System.out.printf("%d sources listed after %.1f s%n", SOURCES.size(), (System.nanoTime() - begin) / 1e9);
        }
        failures.forEach(System.out::println);
        System.out.printf("%d passed, %d failed of %d kernels, %.1f s%n", SOURCES.size() - failures.size(),
                failures.size(), SOURCES.size(), (System.nanoTime() - begin) / 1e9);
        System.exit(failures.isEmpty() && !SOURCES.isEmpty() ? 0 : 1);
    }
}
