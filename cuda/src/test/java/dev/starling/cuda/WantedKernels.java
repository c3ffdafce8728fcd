package dev.starling.cuda;

import dev.starling.cuda.bench.Benchmarks;
import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.dnn.Convolver;
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
 * Compiles the kernels that conformance suite and benchmarks will ask for, with all processors, so that those who run
 * later find them in the cache. Which they are is found out by running all of it on a GPU that does nothing.
 */
public final class WantedKernels {
    private static final String TYPE = "cuda-idle";
    private static final Map<String, KernelSource> WANTED = new ConcurrentHashMap<>();
    private static volatile Consumer<KernelSource> wanted = source -> { };

    /** Libraries that do nothing and say that they did. */
    private static final Libraries WILLING = new Libraries() {
        @Override
        public Blas blas(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return willing(Blas.class);
        }

        @Override
        public Convolver convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return willing(Convolver.class);
        }

        private static <T> T willing(Class<T> library) {
            return library.cast(Proxy.newProxyInstance(library.getClassLoader(), new Class<?>[] {library},
                    (self, method, arguments) -> true));
        }
    };

    /** Offers {@code cuda-idle}: 0 has our own kernels only, 1 has libraries beside them. */
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
            IdleGpu gpu = new IdleGpu(new Notes());
            return new CudaBackend(device, gpu, device.index() == 0 ? Libraries.NONE : WILLING,
                    new KernelCompiler(gpu.compiler(), gpu.architecture(), scratch()));
        }
    }

    /** Notes what it is asked to compile. */
    private static final class Notes implements Compiler {
        @Override
        public String version() {
            return TYPE;
        }

        @Override
        public byte[] compile(String name, String text, String architecture) {
            KernelSource source = new KernelSource(name, "", text);
            if (WANTED.putIfAbsent(text, source) == null) {
                wanted.accept(source);
            }
            return new byte[1];
        }
    }

    private WantedKernels() { }

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
     * Returns what the conformance tests in whose names {@code tests} is found, and the benchmarks, ask for.
     *
     * @param seen is told of each source as it comes, by any thread
     */
    static Iterable<KernelSource> list(Predicate<String> tests, boolean benchmarks, Consumer<KernelSource> seen) {
        wanted = seen;
        List<DynamicTest> all = Stream.of(0, 1).flatMap(i -> Conformance.of(Device.of(TYPE, i)))
                .filter(t -> tests.test(t.getDisplayName())).toList();
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            all.forEach(test -> pool.submit(() -> Threads.with(1, () -> attempt(test))));
            if (benchmarks) {
                // Sizes decide, too, which kernels are wanted.
                pool.submit(() -> Benchmarks.runOnce(Device.of(TYPE, 1), false));
                pool.submit(() -> Benchmarks.runOnce(Device.of(TYPE, 0), true));
            }
        }
        return WANTED.values();
    }

    /** Runs a test, whose results cannot be right. */
    private static Void attempt(DynamicTest test) {
        try {
            test.getExecutable().execute();
        } catch (Throwable e) {
            // Nothing was computed.
        }
        return null;
    }

    /** Runs; the argument is the architecture, otherwise it is the first GPU's. */
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
            System.out.printf("%d sources listed after %.1f s%n", WANTED.size(), (System.nanoTime() - begin) / 1e9);
        }
        failures.forEach(System.out::println);
        System.out.printf("%d passed, %d failed of %d kernels, %.1f s%n", WANTED.size() - failures.size(),
                failures.size(), WANTED.size(), (System.nanoTime() - begin) / 1e9);
        System.exit(failures.isEmpty() && !WANTED.isEmpty() ? 0 : 1);
    }
}
