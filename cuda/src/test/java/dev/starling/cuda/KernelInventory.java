package dev.starling.cuda;

import dev.starling.cuda.blas.MatrixCall;
import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.IdleGpu;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.Nvrtc;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.ConvolutionKernels;
import dev.starling.cuda.kernels.Kernels;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.Multiplication;
import dev.starling.cuda.kernels.Product;
import dev.starling.cuda.kernels.ReductionKernels;
import dev.starling.cuda.kernels.SignBits;
import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Gpt2;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.tensor.conformance.Conformance;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.ChannelsLast;
import dev.starling.tensor.spi.Probe;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
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
import org.junit.jupiter.api.DynamicTest;

/**
 * Compiles the kernels that the conformance suite and the benchmarks use, with all processors, so that later runs find
 * them in the cache. It lists them by running everything on a GPU that does nothing.
 */
public final class KernelInventory {
    private static final String TYPE = "cuda-idle";
    private static final String BENCHMARKS = "dev.starling.jmh.gpu.GpuBench";
    private static final Map<String, KernelSource> SOURCES = new ConcurrentHashMap<>();
    private static volatile Consumer<KernelSource> onSource = source -> { };

    /** Libraries that do nothing and report success, but read the operands that the real ones read. */
    private static final Libraries.Source IDLE = (launcher, memory, sums, config) -> new Libraries(
            List.of(product -> multiply(launcher, product)), List.of(new IdleConvolution(launcher, sums)), List.of(),
            List.of(), () -> { }, submissions -> null);

    private static Answer multiply(Launcher launcher, Multiplication m) {
        Product product = m.product(m.a(), m.b());
        if (!MatrixCall.supportsA(product)) {
            launcher.copied(m.a());
        }
        if (!MatrixCall.supportsB(product)) {
            launcher.copied(m.b());
        }
        if (m.after() == ProductEpilogue.RELU_GRADIENT) {
            SignBits.of(launcher, m.side(), MatrixCall.sideBits(product.n()));
        }
        return Answer.HANDLED;
    }

    private record IdleConvolution(Launcher launcher, ReductionKernels sums) implements Kernels<Convolution> {
        @Override
        public Tensor[] allocate(Convolution op, Tensor[] in, Spec[] outputs) {
            Tensor first = Storage.allocate(outputs[0], ChannelsLast.strides(outputs[0].shape()));
            return outputs.length == 1 ? new Tensor[] {first} : new Tensor[] {first, Storage.allocate(outputs[1])};
        }

        @Override
        public Answer compute(Convolution op, Tensor[] in, Tensor[] out) {
            launcher.channelsLast(in[0]);
            launcher.channelsLast(in[1]);
            return op instanceof Convolution.ConvWeightGradient gradient
                    ? ConvolutionKernels.biasGradient(sums, gradient, in[1], out) : Answer.HANDLED;
        }
    }

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
            return new CudaBackend(device, gpu, device.index() == 0 ? Libraries.NONE : IDLE, CudaConfig.read(),
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
     * Returns the sources that the conformance tests with matching names use.
     *
     * @param networks whether to return those of networks of common sizes, too, and of the benchmarks
     * @param listener called with each new source, by any thread
     */
    static Iterable<KernelSource> list(Predicate<String> tests, boolean networks, Consumer<KernelSource> listener) {
        return list(List.of(0, 1), tests, networks, listener);
    }

    /**
     * Compiles what conformance tests use on a device with all processors, since compilation takes most of their time.
     * A failure shows in the kernel's tests.
     *
     * @param idle the device of this class that has what {@code device} has
     */
    static void compileAhead(Device device, int idle, Predicate<String> tests) {
        KernelCompiler compiler = ((CudaBackend) device.backend()).compiler();
        Queue<KernelSource> found = new ConcurrentLinkedQueue<>();
        list(List.of(idle), tests, false, found::add);
        List<KernelSource> sources = found.stream().sorted(Comparator.comparing(KernelSource::text)).toList();
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            for (int i = 0; i < sources.size(); i += Emulation.TOGETHER) {
                List<KernelSource> batch = sources.subList(i, Math.min(sources.size(), i + Emulation.TOGETHER));
                Emulation.together(batch.stream().map(KernelSource::text).toList());
                pool.submit(() -> batch.forEach(source -> compile(compiler, source)));
            }
        }
    }

    private static void compile(KernelCompiler compiler, KernelSource source) {
        try {
            compiler.compile(source);
        } catch (GpuException e) {
            // The kernel's tests compile it again.
        }
    }

    private static Iterable<KernelSource> list(List<Integer> devices, Predicate<String> tests, boolean networks,
            Consumer<KernelSource> listener) {
        onSource = listener;
        List<DynamicTest> all = devices.stream().flatMap(i -> Conformance.of(Device.of(TYPE, i)))
                .filter(t -> tests.test(t.getDisplayName())).toList();
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            all.forEach(test -> pool.submit(() -> Threads.with(1, () -> attempt(test))));
            if (networks) {
                // Kernels depend on sizes too.
                pool.submit(() -> train(Device.of(TYPE, 1)));
                pool.submit(() -> benchmarks("--index", "1"));
                pool.submit(() -> benchmarks("--index", "0", "--tiny"));
            }
        }
        return SOURCES.values();
    }

    /** Trains an image network and a language model for a step. */
    private static void train(Device device) {
        Device.with(device, () -> {
            try (Scope scope = Scope.open()) {
                Generator random = Generator.seeded(5);
                step(Networks.resnet18(random, 10, 64), Loss.crossEntropy(), random.uniform(512, 3, 32, 32),
                        Tensor.full(DType.I64, 1, 512));
                step(Gpt2.of(50304, 1024, 768, 2, 12, random), Loss.crossEntropyOfLast(),
                        Tensor.full(DType.I64, 1, 8, 1024), Tensor.full(DType.I64, 1, 8, 1024));
            }
            return null;
        });
    }

    private static void step(Layer model, Loss loss, Tensor input, Tensor target) {
        try (Optimizer optimizer = AdamW.over(model).rate(1e-3).build();
                TrainingStep step = new TrainingStep(model, loss, optimizer, Generator.seeded(3))
                        .precision(Precision.of(DType.BF16))) {
            step.run(input, target);
        } catch (RuntimeException e) {
            System.err.println("a network was not trained on a GPU that does nothing: " + e.getMessage());
        }
        model.close();
    }

    /** Runs the benchmarks, which belong to the module jmh, if they are on the class path. */
    private static void benchmarks(String... sizes) {
        List<String> arguments = new ArrayList<>(List.of("--device", TYPE, "--once"));
        arguments.addAll(List.of(sizes));
        try {
            Class.forName(BENCHMARKS).getMethod("run", PrintStream.class, String[].class).invoke(null, System.err,
                    arguments.toArray(String[]::new));
        } catch (ReflectiveOperationException e) {
            System.err.println("the kernels of the benchmarks are compiled when these run: " + e);
        }
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
